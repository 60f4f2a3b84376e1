import type { JobProgress, NewJob } from './job-record.ts';

/** Complete, or it does not compile. */
const NEW_JOB: Record<keyof NewJob, true> = {
  service: true,
  id: true,
  serviceUid: true,
  owner: true,
  principal: true,
  invoker: true,
  trigger: true,
  byToken: true,
  demand: true,
  acceptedAt: true,
  object: true,
  openedBy: true,
  delegatedFrom: true,
  taken: true,
};

const PROGRESS: Record<keyof JobProgress, true> = {
  state: true,
  message: true,
  epoch: true,
  startedAt: true,
  finishedAt: true,
  exitCode: true,
  cancelRequested: true,
  placement: true,
  handIn: true,
  timeline: true,
  attempts: true,
  decisions: true,
};

const NEW_JOB_FIELDS = Object.keys(NEW_JOB);
const PROGRESS_FIELDS = Object.keys(PROGRESS);

/** Only what a new job has: a whole record passes for one, and so would its state. */
export const newJobIn = (job: NewJob): NewJob => pick(job, NEW_JOB_FIELDS) as unknown as NewJob;

/** Only what may change: a whole record passes for a change, and so would what never does. */
export const progressIn = (change: Partial<JobProgress>): Partial<JobProgress> => pick(change, PROGRESS_FIELDS);

function pick(value: object, fields: readonly string[]): Record<string, unknown> {
  const picked: Record<string, unknown> = {};
  for (const field of fields) {
    if (Object.hasOwn(value, field)) picked[field] = (value as Record<string, unknown>)[field];
  }
  return picked;
}
