import type { JobKey } from '../../../cluster/index.ts';
import { roomName } from '../../../jobs/index.ts';
import type { KeyScope, ObjectStore } from '../../../storage/index.ts';

/**
 * How long keys of a job work for the cluster that runs it, in seconds. Longer: a cluster that lost the job can write to its
 * staging area for longer, where nobody looks. Shorter: a single transfer must end within it.
 */
export const KEY_SECONDS = 60 * 60;

/** Keys for the cluster that runs the job. */
export const issueFor = (job: JobKey, scope: KeyScope, onBehalfOf: string, objects: Pick<ObjectStore, 'issue'>) =>
  objects.issue(scope, KEY_SECONDS, onBehalfOf, { purpose: purposeOf(job) });

/** Ends what other clusters were given for a job, by whichever manager of this one, where the store can. */
export const endKeys = (job: JobKey, objects: Pick<ObjectStore, 'revokeFor'>): Promise<void> =>
  objects.revokeFor(purposeOf(job));

const purposeOf = (job: JobKey) => `delegated/${roomName(job)}`;
