import type { JobKey } from '../../cluster/index.ts';
import { readLog } from '../../jobs/index.ts';
import { DelegationError } from '../errors.ts';
import type { ProvenCoordinator } from '../server.ts';
import type { RemoteLogOptions } from '../terms.ts';
import type { Hosting } from './hosting.ts';
import { findTaken } from './stop.ts';

/** What the script of an attempt printed, for its origin. Throws `job-gone` before the first piece is asked for. */
export async function attemptLog(
  key: JobKey,
  options: RemoteLogOptions,
  from: ProvenCoordinator,
  hosting: Hosting,
): Promise<AsyncIterable<Uint8Array>> {
  const record = await findTaken(key, from, hosting);
  if (!record) throw new DelegationError('job-gone', `there is no attempt "${key.id}" of this federation here`);
  return readLog(record, options, hosting);
}
