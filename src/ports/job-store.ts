import type { Cursor, Page, Version } from '../lib/version.ts';
import type { JobKey, JobProgress, JobRecord, JobState, NewJob } from '../model/job/index.ts';

/**
 * The jobs of one cluster: durable records, each with the event that caused it. It stores states, attempts and decisions, and
 * knows nothing of processes. Every change is a compare-and-swap. All queries use an index, so that finished jobs slow down
 * neither queued nor new ones.
 */
export interface JobStore {
  /**
   * Stores a job with its event; both are durable before this resolves. An existing job with the same key is not changed,
   * also if it is a tombstone: so an event that arrives twice runs once.
   */
  accept(job: NewJob, progress: JobProgress, event: Uint8Array): Promise<Acceptance>;

  /** Undefined for a tombstone. With several managers the record may be slightly old; an update based on it then conflicts. */
  get(key: JobKey): Promise<JobRecord | undefined>;

  /** The same, but never older than the call: for callers that reject a request because of the result. */
  getFresh(key: JobKey): Promise<JobRecord | undefined>;

  /** The event that caused the job. Undefined if the job was removed. */
  event(key: JobKey): Promise<Uint8Array | undefined>;

  /** Throws `conflict` if the record has another version, `absent` if the job was removed. */
  update(key: JobKey, expected: Version, change: Partial<JobProgress>): Promise<JobRecord>;

  /** Newest first. Throws `expired` for an invalid cursor. */
  list(query: JobQuery): Promise<Page<JobRecord>>;

  /** All jobs that are not in a final state, oldest first. */
  unfinished(): AsyncIterable<JobRecord>;

  /**
   * The changes since the cursor in their order, each job once with its newest record; without a cursor, only the current
   * cursor. Throws `expired` if the cursor is no longer known: list again.
   */
  changes(query: ChangeQuery): Promise<JobChanges>;

  /** Calls the listener after every change, and sometimes without one. Returns a function that unsubscribes. */
  onChange(listener: () => void): () => void;

  /**
   * Removes a finished job and its event. A job that an object caused stays as a hidden tombstone, so that neither a repeated
   * event nor a sweep runs it again; other jobs are deleted at once. False if there is no such job. Throws `conflict` if it
   * is not finished.
   */
  remove(key: JobKey): Promise<boolean>;

  /** Deletes all jobs and tombstones of a removed service, in any state. Resolves to the jobs, without the tombstones. */
  removeService(serviceUid: string): Promise<JobRecord[]>;

  /** Removes, like {@link remove}, up to `limit` jobs that ended before this time. Resolves to the removed jobs. */
  expire(finishedBefore: number, limit: number): Promise<JobRecord[]>;

  /** Deletes tombstones of a service whose object was last modified before this time. Resolves to their number. */
  dropTombstones(serviceUid: string, modifiedBefore: number): Promise<number>;

  /** The number of jobs in each state, without tombstones. */
  counts(): Promise<ReadonlyMap<JobState, number>>;

  /** When the oldest job that still waits to run was accepted. */
  oldestWaiting(): Promise<number | undefined>;

  /** Usage within a time range, from the jobs that still have records; one row per service, invoker and trigger. */
  usage(range: { readonly from: number; readonly to: number }): Promise<UsageRow[]>;
}

export interface Acceptance {
  readonly outcome: 'created' | 'exists';
  /** Absent for one that exists and is hidden. */
  readonly record?: JobRecord;
}

export interface JobQuery {
  /** All services if left out. */
  readonly service?: string;
  readonly states?: readonly JobState[];
  /** Only those that this user caused, or that have this user's rights. */
  readonly concerning?: string;
  readonly triggers?: readonly NewJob['trigger'][];
  readonly cursor?: Cursor;
  readonly limit: number;
}

export interface ChangeQuery {
  /** All services if left out. */
  readonly service?: string;
  readonly since?: Cursor;
  readonly limit: number;
}

export interface JobChanges {
  /** `record` is absent for a removed job. */
  readonly items: readonly { readonly key: JobKey; readonly record?: JobRecord }[];
  readonly cursor: Cursor;
}

export interface UsageRow {
  readonly service: string;
  readonly invoker: string;
  readonly trigger: NewJob['trigger'];
  readonly jobs: number;
  /** The requested CPUs multiplied by the running time within the range. */
  readonly cpuSeconds: number;
  readonly gpuSeconds: number;
}
