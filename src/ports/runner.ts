import type { Readable } from 'node:stream';
import type { Attempt, Ended, JobKey, PodTraits } from '../model/job/index.ts';

/**
 * Runs attempts: fetches the input, runs the script in its image or as a process, uploads what it left in its output
 * directory. Knows nothing of services, federation or retries. An attempt survives the manager: whoever comes after it
 * starts the same attempt again and finds it where it is by then.
 */
export interface Runner {
  /**
   * Resolves when the attempt is under way and would be found again. The same name again never starts the script a second
   * time: it takes up what is there, and does what is still to be done.
   */
  start(attempt: Attempt): Promise<void>;

  /** Level-triggered: may repeat, may skip; ends after `ended`, soon after which the files of the script are gone. Throws `absent` for an attempt that is not known. */
  observe(name: string): AsyncIterable<Observation>;

  /** Ends it: the script is asked, then made to go, with everything it started. Of an ended or unknown one: nothing. */
  stop(name: string, reason: StopReason): Promise<void>;

  /** What the script printed, both streams in order, and notices of the runner. Throws `absent` like {@link observe}. */
  logs(name: string, options: LogOptions): AsyncIterable<Uint8Array>;

  /**
   * For an attempt with `answer` that succeeded: one output file as base64, several as base64 of a zip archive, none: what
   * the script printed. For one whose script failed: what it printed.
   */
  answer(name: string): Promise<Readable>;

  /** Names of all attempts that are known here, ended ones too. */
  list(): Promise<string[]>;

  /** Drops everything of an attempt that has ended, its log too. */
  forget(name: string): Promise<void>;

  /** What the scripts that run use at this moment, as far as it can be told. */
  usage(): Usage;

  /** Lets go of what runs without ending it, and waits for nothing. */
  close(): Promise<void>;

  /** Absent where a script starts in no time anyway. */
  readonly standby?: Standby;
}

/** Places that wait for jobs of certain services, so that whoever waits for an answer does not wait for a start. */
export interface Standby {
  /** So many are kept ready of each from now on, and no others. Only whoever leads says that. */
  setRequests(orders: readonly StandbyRequest[]): void;

  /**
   * Sets one aside for this job, if one is ready: the start of its attempt takes it. It has its room already, so that the
   * job needs none.
   */
  claim(job: JobKey): boolean;

  /** It was not needed. Of a job that has none: nothing. */
  release(job: JobKey): void;

  /** Calls the listener with a service for which one may be ready by now. Call what it returns to end that. */
  onReady(listener: (service: string) => void): () => void;
}

export interface StandbyRequest extends Pick<Attempt, 'image' | 'demand'> {
  readonly service: string;
  readonly count: number;
  readonly traits: Omit<PodTraits, 'job'>;
}

/** `evicted`: the cluster wants its room for others. */
export type StopReason = 'cancelled' | 'caller-left' | 'service-removed' | 'superseded' | 'evicted';

export type Observation =
  /** Not running yet: getting the image or the input. */
  | { readonly phase: 'preparing'; readonly message: string }
  | { readonly phase: 'running'; readonly startedAt: number }
  | { readonly phase: 'uploading'; readonly startedAt: number }
  | Ended;

export interface LogOptions {
  /** Begin each line with its time, as Kubernetes does. */
  readonly timestamps: boolean;
  /** Go on until the attempt has ended or the signal says so. */
  readonly follow: boolean;
  readonly signal?: AbortSignal;
}

export interface Usage {
  readonly cpu: number;
  readonly memory: number;
}
