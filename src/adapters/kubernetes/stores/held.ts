import type { JobRecord } from '../../../model/job/index.ts';
import { isElsewhere, type Kueue, whyEvicted, whyHeld } from '../kueue/index.ts';
import { isFinalJob, type JobEntry } from './job-object.ts';

/**
 * Why Kueue does not let a job start, or go on; undefined when it does. Where Kueue is turned off nothing is held by it,
 * whatever a Job still says.
 */
export function heldBy(
  { uid, suspended, queue }: Pick<JobEntry, 'uid' | 'suspended' | 'queue'>,
  { state }: Pick<JobRecord, 'state'>,
  kueue: Pick<Kueue, 'workloadOf'> | undefined,
): string | undefined {
  if (!kueue || queue === undefined || isFinalJob(state)) return undefined;
  const workload = kueue.workloadOf(uid);
  if (state === 'running') return suspended ? whyEvicted(queue, workload) : undefined;
  // One that comes back from another cluster is about to be suspended, if it is not yet.
  const held = suspended || (state === 'queued' && isElsewhere(workload));
  return held ? whyHeld(queue, workload) : undefined;
}
