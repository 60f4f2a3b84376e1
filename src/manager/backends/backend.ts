import type { singleProcess } from '../../http/index.ts';
import type { AttemptKeys, DelegationRoles, DispatcherOptions, Jobs, Scheduler } from '../../jobs/index.ts';
import type { Capacity, Runner } from '../../ports/index.ts';
import type { Staging } from '../../staging/index.ts';
import type { Term } from './leadership.ts';

/** Where the jobs of this cluster run, and how. */
export interface Backend {
  readonly runner: Runner;
  readonly capacity: Capacity;
  /** Moves the results of jobs that ran on other clusters, and here those of all. */
  readonly staging: Staging;
  readonly runtime: 'process' | 'docker' | 'pods';
  /** What scripts are told of where they run, if nobody else tells them. */
  readonly node: string;
  readonly keys?: AttemptKeys;
  /** What the managers of this cluster run as; absent where that is this process. */
  readonly deployment?: ReturnType<typeof singleProcess>;
  /** Opens the line of jobs. It begins with a term. */
  line(options: DispatcherOptions): Promise<OpenScheduler>;
  /** What else the leader does for jobs here. */
  lead(jobs: Jobs, term: Term): Promise<void>;
  close(): Promise<void>;
}

export interface OpenScheduler extends Scheduler {
  readonly running: number;
  /** From now on this manager starts jobs and sees them through, until the signal. */
  lead(roles: DelegationRoles, until: AbortSignal): Promise<void>;
  close?(): Promise<void>;
}
