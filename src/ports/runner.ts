import type { Readable } from 'node:stream';
import type { Attempt, Ended, JobKey, PodTraits } from '../model/job/index.ts';

/**
 * Runs attempts: fetches the input, runs the script in its image or as a process, uploads the files of its output directory.
 * It knows nothing of services, federation or retries. An attempt survives the manager: the next manager calls `start` for
 * the same attempt and finds it in its current state.
 */
export interface Runner {
  /**
   * Resolves when the attempt has started and would be found again after a crash. Calling it again with the same name never
   * starts the script a second time: it resumes the attempt and completes its remaining steps.
   */
  start(attempt: Attempt): Promise<void>;

  /**
   * Level-triggered: observations may repeat and may be skipped. Ends after `ended`; soon after that the files of the script
   * are removed. Throws `absent` for an unknown attempt.
   */
  observe(name: string): AsyncIterable<Observation>;

  /** Stops the script and all processes that it started: first a request, then a kill. Does nothing if it has ended or is unknown. */
  stop(name: string, reason: StopReason): Promise<void>;

  /** The output of the script, both streams in order, with notices of the runner. Throws `absent` like {@link observe}. */
  logs(name: string, options: LogOptions): AsyncIterable<Uint8Array>;

  /**
   * The answer of a synchronous call. If the script succeeded: one output file as base64, several as base64 of a zip archive,
   * or its log if there is none. If the script failed: its log.
   */
  answer(name: string): Promise<Readable>;

  /** Names of all known attempts, including ended ones. */
  list(): Promise<string[]>;

  /** Removes an ended attempt and its log. */
  forget(name: string): Promise<void>;

  /** The current resource usage of all running scripts, as far as it is known. */
  usage(): Usage;

  /** Detaches from running scripts without stopping them. */
  close(): Promise<void>;

  /** Absent where scripts start fast without it. */
  readonly standby?: Standby;
}

/** Pods that wait for synchronous calls of certain services, so that callers do not wait for the start of a pod. */
export interface Standby {
  /** Replaces all requests: keeps so many pods ready for each service, and none for others. Only the leader calls this. */
  setRequests(orders: readonly StandbyRequest[]): void;

  /**
   * Claims a ready pod for this job, if there is one; the start of its attempt uses it. The pod has its room already, so the
   * job needs none.
   */
  claim(job: JobKey): boolean;

  /** Releases an unused claim; does nothing if the job has none. */
  release(job: JobKey): void;

  /** Calls the listener with a service for which a pod may be ready. Returns a function that unsubscribes. */
  onReady(listener: (service: string) => void): () => void;
}

export interface StandbyRequest extends Pick<Attempt, 'image' | 'demand'> {
  readonly service: string;
  readonly count: number;
  readonly traits: Omit<PodTraits, 'job'>;
}

/** `superseded`: the origin offered the job to another member. `evicted`: the cluster needs the room for others. */
export type StopReason = 'cancelled' | 'caller-left' | 'service-removed' | 'superseded' | 'evicted';

export type Observation =
  /** Not running yet: the image is pulled or the input fetched. */
  | { readonly phase: 'preparing'; readonly message: string }
  | { readonly phase: 'running'; readonly startedAt: number }
  | { readonly phase: 'uploading'; readonly startedAt: number }
  | Ended;

export interface LogOptions {
  /** Prefix each line with its time, as Kubernetes does. */
  readonly timestamps: boolean;
  /** Continue until the attempt has ended or the signal aborts. */
  readonly follow: boolean;
  readonly signal?: AbortSignal;
}

export interface Usage {
  readonly cpu: number;
  readonly memory: number;
}
