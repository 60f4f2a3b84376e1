import type { Cursor, Page, Version } from '../lib/version.ts';
import type { JobKey, JobProgress, JobRecord, JobState, NewJob } from '../model/job/index.ts';

/**
 * The jobs of one cluster: durable records, each with the event that caused it. Knows states, attempts and decisions,
 * nothing of processes. Every change is a compare-and-swap; whatever is looked up is indexed, so that finished jobs cost
 * neither those that wait nor those that come.
 */
export interface JobStore {
  /**
   * Keeps a job with its event; on the disk before it resolves. A job of that key that is there already stays as it is,
   * also when it is hidden: that is how an event which comes twice runs once.
   */
  accept(job: NewJob, progress: JobProgress, event: Uint8Array): Promise<Acceptance>;

  /** Undefined for one that is hidden. Where others write too, it may be a moment old: an update by it is then refused. */
  get(key: JobKey): Promise<JobRecord | undefined>;

  /** The same, and never older than the question: for whoever says no because of it. */
  getFresh(key: JobKey): Promise<JobRecord | undefined>;

  /** The bytes that caused it. Undefined when the job is gone or hidden. */
  event(key: JobKey): Promise<Uint8Array | undefined>;

  /** Throws `conflict` when the record is not in that version, `absent` when it is gone or hidden. */
  update(key: JobKey, expected: Version, change: Partial<JobProgress>): Promise<JobRecord>;

  /** Newest first. Throws `expired` for a cursor that is none. */
  list(query: JobQuery): Promise<Page<JobRecord>>;

  /** Every job that is in no final state, oldest first. */
  unfinished(): AsyncIterable<JobRecord>;

  /**
   * What has changed since the cursor, in the order of the changes, each job once in its newest state; without a cursor,
   * nothing but the cursor of now. Throws `expired` when it is not known any more: list again.
   */
  changes(query: ChangeQuery): Promise<JobChanges>;

  /** Calls the listener after every change. It may be called for nothing. Call what it returns to end that. */
  onChange(listener: () => void): () => void;

  /**
   * Takes a finished job out of sight and drops its event. One that an object caused, however its event came, stays as
   * a hidden mark, so that neither the event again nor a sweep runs it again; others go at once. False when there is none. Throws
   * `conflict` when it is not finished.
   */
  remove(key: JobKey): Promise<boolean>;

  /** All of a service that is gone, hidden ones too, whatever their state. Resolves to those that were not hidden. */
  removeService(serviceUid: string): Promise<JobRecord[]>;

  /** Removes, like {@link remove}, up to `limit` jobs that ended before. Resolves to them. */
  expire(finishedBefore: number, limit: number): Promise<JobRecord[]>;

  /** Drops hidden marks of a service whose object was last modified before. Resolves to how many. */
  dropTombstones(serviceUid: string, modifiedBefore: number): Promise<number>;

  /** How many there are in each state; hidden ones do not count. */
  counts(): Promise<ReadonlyMap<JobState, number>>;

  /** When the oldest job was accepted that still waits to run. */
  oldestWaiting(): Promise<number | undefined>;

  /** What was run in a time, from the jobs that are still remembered; one row per service, invoker and trigger. */
  usage(range: { readonly from: number; readonly to: number }): Promise<UsageRow[]>;
}

export interface Acceptance {
  readonly outcome: 'created' | 'exists';
  /** Absent for one that exists and is hidden. */
  readonly record?: JobRecord;
}

export interface JobQuery {
  readonly service: string;
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
  /** `record` is absent for one that is gone. */
  readonly items: readonly { readonly key: JobKey; readonly record?: JobRecord }[];
  readonly cursor: Cursor;
}

export interface UsageRow {
  readonly service: string;
  readonly invoker: string;
  readonly trigger: NewJob['trigger'];
  readonly jobs: number;
  /** What they asked for, times how long they ran within the range. */
  readonly cpuSeconds: number;
  readonly gpuSeconds: number;
}
