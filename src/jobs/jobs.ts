import type { StorageProvider } from '../config/index.ts';
import type { Attempt, JobKey, JobRecord, Transition } from '../model/job/index.ts';
import type { ClusterStore, Service } from '../model/service/index.ts';
import type { Capacity, JobStore, ObjectStore, Runner, SecretStore, ServiceStore, StopReason } from '../ports/index.ts';

/** What the functions of this folder need: the stores of jobs and services, the runner, and the scheduler. */
export interface Jobs {
  readonly store: JobStore;
  readonly runner: Runner;
  readonly capacity: Capacity;
  readonly services: ServiceStore;
  readonly secrets: SecretStore;
  readonly objects: ObjectStore;
  /** The store of the cluster, as those who move the files of jobs reach it. */
  readonly ownStore: ClusterStore;
  /** Its address for everybody else, if that is another. */
  readonly publicStore?: ClusterStore;
  /** The account of the manager itself at the store, in whose name the administrator writes. */
  readonly storeAccount: string;
  /** Providers that the operator defined, as `minio.shared`. */
  readonly namedStores: ReadonlyMap<string, StorageProvider>;
  /** Id of this cluster, and the name of the machine (`RESOURCE_ID`). */
  readonly place: string;
  readonly node: string;
  /** How long a script may run unless its service says otherwise, in milliseconds. */
  readonly timeout: number;
  readonly maxEventBytes: number;
  readonly now: () => number;
  /** Keys of attempts; some hours and for this process alone if left out. */
  readonly keys?: AttemptKeys;
  /** Puts an accepted job in line, and tells of its end. */
  readonly scheduler: JobControl;
}

/** What keys for the files of an attempt are like. */
export interface AttemptKeys {
  /** How long they work. Whoever hands them out renews them before that. */
  readonly seconds: number;
  /** Does nobody outside this process get them? */
  readonly inProcess: boolean;
}

/** What the verbs need of the dispatcher. */
interface JobControl {
  /** A job was accepted and waits, for room here or for another cluster. Again: nothing happens. */
  enqueue(job: SchedulableJob, mode?: PlacementMode): void;
  /** Somebody wants it to end: now if it waits, as soon as can be if it runs. */
  cancel(key: JobKey, reason: StopReason): Promise<void>;
  /** Resolves when the job is in a final state, with its record; undefined when it is gone. */
  waitUntilEnded(key: JobKey): Promise<JobRecord | undefined>;
}

/** What it takes to have jobs run on other clusters, and those of others here. */
export interface Scheduler extends JobControl {
  /** How many wait for room, as far as this manager is the one to start them. */
  readonly waiting: number;
  /** A job was accepted for which room is reserved already, under its {@link jobKeyText}. */
  begin(job: SchedulableJob): void;
  /** It does not wait for room here any more: somebody else is asked to run it. */
  withdraw(key: JobKey): void;
  /** It has ended, somewhere else: whoever waits for that is told. */
  notify(record: JobRecord): void;
}

/** What of a job counts while it waits. */
export type SchedulableJob = Pick<JobRecord, 'service' | 'id' | 'owner' | 'demand'> &
  Partial<Pick<JobRecord, 'trigger' | 'held'>>;

/** Under which name a job has room. */
export const jobKeyText = ({ service, id }: JobKey) => `${service}/${id}`;

/**
 * Where a job may run. `local`: on this cluster only. `overflow`: queued here, and offered to other clusters while there is
 * no room here. `any`: not queued here; the policy chooses among all clusters, including this one.
 */
export type PlacementMode = 'local' | 'overflow' | 'any';

/** The origin side of delegation: what the scheduler asks for jobs of this cluster that another cluster may run. */
export interface Delegation {
  /**
   * Offers a queued job to other clusters. With `overflow` it stays queued here too; with `any` it does not. Calling it
   * again for the same job is a no-op.
   */
  consider(key: JobKey, mode: PlacementMode): void;

  /** After a restart: continues with a job that is offered or delegated, or whose results are being committed. */
  resume(record: JobRecord): void;

  /** A job that another cluster has was cancelled here: tells that cluster to stop it. */
  onCancelled(record: JobRecord): void;

  /**
   * The record of a job of this cluster has changed. Another manager of this cluster may have written it, so the leader
   * does what the new state still requires. Calling it again with the same record is a no-op.
   */
  onChanged(record: JobRecord): void;

  /** The record of a job of this cluster was removed. */
  onRemoved(key: JobKey): void;
}

/** The target side of delegation: what the scheduler asks for jobs that another manager, their origin, delegated here. */
export interface HostedJobs {
  /** Reports to the origin, repeatedly until the signal aborts, that the job is queued here. */
  reportQueued(record: JobRecord, until: AbortSignal): void;

  /** Prepares an attempt that reads its input from the origin's store and writes its results there. */
  prepare(name: string, record: JobRecord, service: Service, event: Uint8Array): Promise<PreparedAttempt>;

  /** Reports to the origin, repeatedly until the signal aborts, that the job is running here. */
  reportRunning(record: JobRecord, until: AbortSignal): void;

  /**
   * Reports to the origin how the job ended, and retries until the origin answers. Resolves to the final state of the
   * record here; undefined when this manager stops first.
   */
  reportResult(
    record: JobRecord,
    stopping: AbortSignal,
  ): Promise<Pick<Transition, 'state' | 'reason' | 'message'> | undefined>;

  /** Reports to the origin that the job was cancelled here. */
  reportCancelled(record: JobRecord): void;
}

/** Both sides of delegation, as far as this manager has them. */
export interface DelegationRoles {
  readonly delegation?: Delegation;
  readonly hostedJobs?: HostedJobs;
}

export interface PreparedAttempt {
  readonly attempt: Attempt;
  /** Ends the keys that it was given. */
  readonly release: () => Promise<void>;
}

export interface DispatcherOptions extends Omit<Jobs, 'scheduler'> {
  /** Told of what nobody waits for. */
  readonly report: (problem: unknown, key: JobKey) => void;
  /**
   * May whoever called and waits for the answer of this job still be there, at another manager? Without it nobody is:
   * they were connected to the one before.
   */
  readonly isCallerWaiting?: (record: JobRecord) => boolean;
}

/** What it takes to see an attempt through. */
export interface AttemptDeps extends DispatcherOptions {
  readonly hostedJobs: HostedJobs | undefined;
}
