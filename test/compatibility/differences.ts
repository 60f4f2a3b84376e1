import { BUCKETS } from './differences/buckets.ts';
import { DECISIONS } from './differences/decisions.ts';
import { DEFECTS } from './differences/defects.ts';
import type { Difference } from './differences/difference.ts';
import { FEDERATION } from './differences/federation.ts';
import { JOBS } from './differences/jobs.ts';
import { LATER } from './differences/later.ts';
import { METRICS } from './differences/metrics.ts';
import { STATUS } from './differences/status.ts';

/** Every reason why our manager answers a recorded request differently from the Go manager. */
export const DIFFERENCES: readonly Difference[] = [
  ...DEFECTS,
  ...DECISIONS,
  ...BUCKETS,
  ...FEDERATION,
  ...JOBS,
  ...STATUS,
  ...METRICS,
  ...LATER,
];
