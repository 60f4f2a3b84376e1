import type { JobProgress, JobRecord, NewJob } from '../../job-record.ts';

/** Complete, or it does not compile. */
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

const ADDED: Record<Exclude<keyof JobRecord, keyof NewJob | keyof JobProgress>, true> = {
  eventBytes: true,
  version: true,
};

/** Only what may change: a whole record passes for a change, and so would what never does. */
export const progressIn = (change: Partial<JobProgress>): Partial<JobProgress> =>
  pick(change, (field) => field in PROGRESS);

/** Only what a new job has: a whole record passes for one, and so would its state. */
export const newJobIn = (job: NewJob): NewJob =>
  pick(job, (field) => !(field in PROGRESS || field in ADDED)) as unknown as NewJob;

function pick(value: object, isWanted: (field: string) => boolean): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).filter(([field]) => isWanted(field)));
}
