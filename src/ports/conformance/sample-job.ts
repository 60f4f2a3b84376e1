import type { JobProgress, JobState, NewJob } from '../../model/job/index.ts';

/** Far in the past, so that every time a test derives from it is in the past too. */
export const EPOCH = 1_700_000_000_000;

/** A job with the given fields and plain defaults for the rest. */
export function sampleJob(id: string, known: Partial<NewJob> = {}): NewJob {
  const service = known.service ?? 'cow';
  return {
    service,
    id: `${service}-${id}`,
    serviceUid: `uid-of-${service}`,
    owner: 'alice',
    principal: 'alice',
    invoker: 'alice',
    trigger: 'job',
    byToken: false,
    demand: { cpu: 200, memory: 256 * 2 ** 20, gpu: 0 },
    acceptedAt: EPOCH,
    ...known,
  };
}

/** A job of a storage event, for an object that was modified at `modifiedAt`. */
export function storageJob(id: string, known: Partial<NewJob> = {}, modifiedAt = EPOCH): NewJob {
  return sampleJob(id, { trigger: 'storage', object: { bucket: 'meadow', key: `in/${id}`, modifiedAt }, ...known });
}

export function sampleProgress(state: JobState = 'accepted', known: Partial<JobProgress> = {}): JobProgress {
  const at = EPOCH + 1_000;
  return {
    state,
    message: '',
    epoch: 0,
    timeline: [{ state, at, reason: 'Accepted', message: 'the job was accepted', place: 'oscar-cluster' }],
    attempts: [],
    decisions: [],
    ...known,
  };
}
