import type { JobProgress, JobState, NewJob } from '../../model/job/index.ts';

/** Long ago, so that whatever a test counts from here on is over. */
export const EPOCH = 1_700_000_000_000;

/** What a test says about the job it needs; the rest is as plain as can be. */
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

/** One that an object caused which was modified then. */
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
