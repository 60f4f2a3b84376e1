import type { Isolation } from '../../adapters/local-runner/index.ts';
import type { singleProcess } from '../../http/index.ts';
import type { AttemptKeys, DelegationRoles, DispatcherOptions, Jobs, Scheduler } from '../../jobs/index.ts';
import type { Capacity, Runner } from '../../ports/index.ts';
import type { Staging } from '../../staging/index.ts';
import type { Term } from './leadership.ts';

/** Where and how the jobs of this cluster run. */
export interface Backend {
  readonly runner: Runner;
  readonly capacity: Capacity;
  /** Moves the results of jobs that ran on other clusters; with the local backend, the files of all jobs. */
  readonly staging: Staging;
  readonly runtime: 'process' | 'docker' | 'pods';
  /** How scripts that run as processes are separated from each other. */
  readonly isolation?: Isolation;
  /** Default environment of scripts about where they run. */
  readonly node: string;
  readonly keys?: AttemptKeys;
  /** The Deployment of the managers; absent if it is this process. */
  readonly deployment?: ReturnType<typeof singleProcess>;
  /** Opens the scheduler. It starts with a term of leadership. */
  line(options: DispatcherOptions): Promise<OpenScheduler>;
  /** Further duties of the leader. */
  lead(jobs: Jobs, term: Term): Promise<void>;
  close(): Promise<void>;
}

export interface OpenScheduler extends Scheduler {
  readonly running: number;
  /** Starts and follows jobs until the signal aborts. */
  lead(roles: DelegationRoles, until: AbortSignal): Promise<void>;
  close?(): Promise<void>;
}
