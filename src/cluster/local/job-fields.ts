import type { JobProgress, NewJob } from '../job-record.ts';

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

/** Only what a new job has: a whole record passes for one, and so would its state. */
export const newJobIn = (job: NewJob): NewJob => pick(job, NEW_JOB) as unknown as NewJob;

/** Only what may change: a whole record passes for a change, and so would what never does. */
export const progressIn = (change: Partial<JobProgress>): Partial<JobProgress> => pick(change, PROGRESS);

function pick(value: object, fields: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).filter(([field]) => Object.hasOwn(fields, field)));
}
