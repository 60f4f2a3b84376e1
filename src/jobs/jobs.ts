import type { StorageProvider } from '../config/index.ts';
import { uuidV5 } from '../lib/uuid.ts';
import type {
  Attempt,
  AttemptRecord,
  Demand,
  JobKey,
  JobProgress,
  JobRecord,
  NewJob,
  Transition,
} from '../model/job/index.ts';
import { bytes, type ClusterStore, type Definition, millicores, type Service } from '../model/service/index.ts';
import {
  type Capacity,
  type JobStore,
  type ObjectStore,
  type Runner,
  type SecretStore,
  type ServiceStore,
  type StopReason,
  StoreError,
} from '../ports/index.ts';

/** What the functions of this folder need: the stores of jobs and services, the runner, and the scheduler. */
export interface Jobs {
  readonly store: JobStore;
  readonly runner: Runner;
  readonly capacity: Capacity;
  readonly services: ServiceStore;
  readonly secrets: SecretStore;
  readonly objects: ObjectStore;
  /** The object store of this cluster, at the address that runners use to move the files of jobs. */
  readonly ownStore: ClusterStore;
  /** The same store at the address for users and other clusters, if it differs. */
  readonly publicStore?: ClusterStore;
  /** The manager's own account at the store. What the administrator writes is written with it. */
  readonly storeAccount: string;
  /** Storage providers that the operator defined, such as `minio.shared`. */
  readonly namedStores: ReadonlyMap<string, StorageProvider>;
  /** Id of this cluster, and the name of the machine (`RESOURCE_ID`). */
  readonly place: string;
  readonly node: string;
  /** How long a script may run unless its service says otherwise, in milliseconds. */
  readonly timeout: number;
  readonly maxEventBytes: number;
  readonly now: () => number;
  /** Default: keys that last some hours and never leave this process. */
  readonly keys?: AttemptKeys;
  /** Queues accepted jobs, cancels jobs and reports their end. */
  readonly scheduler: JobControl;
}

/** Properties of the keys with which an attempt reaches its files. */
export interface AttemptKeys {
  /** Lifetime. The runner requests new keys before it ends. */
  readonly seconds: number;
  /** True if the keys never leave this process. */
  readonly inProcess: boolean;
}

/** The part of the scheduler that the functions of this folder use. */
interface JobControl {
  /** Queues an accepted job here, or offers it to other clusters. Calling it again for the same job is a no-op. */
  enqueue(job: SchedulableJob, mode?: PlacementMode): void;
  /** Ends a job: at once if it is queued, as soon as its script has stopped if it runs. */
  cancel(key: JobKey, reason: StopReason): Promise<void>;
  /** Resolves to the record once it is in a final state; to undefined if the job is removed or this manager stops. */
  waitUntilEnded(key: JobKey): Promise<JobRecord | undefined>;
}

/** The scheduler, with the operations that delegation needs. */
export interface Scheduler extends JobControl {
  /** Jobs that are queued for room here. 0 at a manager that does not lead. */
  readonly waiting: number;
  /** Jobs whose attempt this manager runs. 0 at a manager that does not lead. */
  readonly running: number;
  /** Starts an accepted job whose room is already reserved under its {@link jobKeyText}. */
  begin(job: SchedulableJob): void;
  /** Removes a job from the queue of this cluster because it is being offered to another one. */
  withdraw(key: JobKey): void;
  /** Resolves {@link waitUntilEnded} for a job that ended on another cluster. */
  notify(record: JobRecord): void;
}

/** The fields of a job that the scheduler uses while the job is queued. */
export type SchedulableJob = Pick<JobRecord, 'service' | 'id' | 'owner' | 'demand'> &
  Partial<Pick<JobRecord, 'trigger' | 'held' | 'taken'>>;

/** The name under which {@link Capacity} reserves room for a job. */
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
  /** Revokes the keys of the attempt. */
  readonly release: () => Promise<void>;
}

/** How the starts of jobs are shared when jobs of this cluster and of other clusters wait for room. */
export interface QueueShares {
  /** The share of jobs of other clusters, from 0 to 1. The rest is for jobs of this cluster. */
  readonly hosted: number;
  /** The weights of other clusters among each other, by cluster id; 1 for a cluster that is not named. */
  readonly weights: ReadonlyMap<string, number>;
}

export interface DispatcherOptions extends Omit<Jobs, 'scheduler'> {
  /** How jobs of this cluster and of other clusters share its room. */
  readonly shares?: QueueShares;
  /** Called with errors of background work. */
  readonly report: (problem: unknown, key: JobKey) => void;
  /**
   * Whether the caller of this synchronous job may still be connected, to another manager of this cluster. Left out where
   * there is one manager only: after its restart no caller is connected.
   */
  readonly isCallerWaiting?: (record: JobRecord) => boolean;
}

/** What running an attempt needs. */
export interface AttemptDeps extends DispatcherOptions {
  readonly hostedJobs: HostedJobs | undefined;
  /** Called when the script has ended and its results are being uploaded. */
  readonly onScriptEnded: () => void;
}

/** The resources that a job of this service needs. The quantities were validated when the definition was read. */
export function serviceDemand({ cpu, memory, enable_gpu }: Definition): Demand {
  return { cpu: millicores(cpu) ?? 0, memory: bytes(memory) ?? 0, gpu: enable_gpu ? 1 : 0 };
}

/** Annotation of a service: how long its scripts may run, in seconds, instead of the operator's limit. */
const TIMEOUT = 'oscar-manager/job-timeout';

/** In milliseconds. A service cannot exceed the operator's limit. */
export function serviceTimeout({ annotations }: Definition, usual: number): number {
  const asked = Number(annotations[TIMEOUT] ?? Number.NaN) * 1000;
  return asked > 0 ? Math.min(asked, usual) : usual;
}

/** Namespaces of derived UUIDs. They must never change. */
const FURTHER = 'c0a4d9f2-6b1e-5c3a-9f57-05ca20260002';
const TAKEN = 'c0a4d9f2-6b1e-5c3a-9f57-05ca20260003';
const GIVEN = 'c0a4d9f2-6b1e-5c3a-9f57-05ca20260004';

/**
 * The first attempt of a job has the name of the job (docs/jobs.md#names-of-jobs-and-attempts); the names of further
 * attempts are derived from it. Another manager may have chosen the id of a delegated job, and it may equal the id of a job
 * of another service. Attempt names are unique in the whole cluster, so such a job gets names that are derived from its
 * service, and nobody can reach the attempts of other services.
 */
export function attemptName(job: NamedJob, epoch: number): string {
  const { service, serviceUid, id, delegatedFrom, openedBy } = job;
  if (delegatedFrom !== undefined || openedBy !== undefined) {
    return `${cut(service)}-${uuidV5(GIVEN, JSON.stringify([serviceUid, id, epoch]))}`;
  }
  return epoch <= 1 ? id : `${cut(id)}-${uuidV5(FURTHER, JSON.stringify([id, epoch]))}`;
}

/** Whether an attempt ran on this cluster. A Go manager gives attempts no names of their own: there the job has its name here. */
export const isLocalAttempt = (
  job: NamedJob,
  { name, epoch, place }: Pick<AttemptRecord, 'name' | 'epoch' | 'place'>,
  here: { readonly place: string },
) => place === here.place && name === attemptName(job, epoch);

type NamedJob = Pick<NewJob, 'service' | 'serviceUid' | 'id' | 'delegatedFrom' | 'openedBy'>;

/**
 * The name of a hosted attempt at its target (docs/peer-protocol.md#jobs). Origin and target both compute it, and the same
 * offer always gives the same name.
 */
export function hostedAttemptName(
  uid: string,
  member: string,
  job: JobKey,
  epoch: number,
  workerService: string,
): string {
  return `${cut(workerService)}-${uuidV5(TAKEN, JSON.stringify([uid, member, job.service, job.id, epoch]))}`;
}

const cut = (name: string) => name.slice(0, 16).replace(/-+$/, '');

/**
 * Changes a record by compare-and-swap, and retries with the newer record when another writer was first. `decide` computes
 * the change from the current record; undefined means that there is nothing to change. Resolves to the record that was
 * written; undefined if nothing was written.
 */
export async function changeJob(
  key: JobKey,
  store: Pick<JobStore, 'get' | 'update'>,
  decide: (record: JobRecord) => Partial<JobProgress> | undefined,
  known?: JobRecord,
): Promise<JobRecord | undefined> {
  for (let record = known ?? (await store.get(key)); record; record = await store.get(key)) {
    const change = decide(record);
    if (!change) return undefined;
    try {
      return await store.update(key, record.version, change);
    } catch (error) {
      if (!(error instanceof StoreError) || (error.code !== 'conflict' && error.code !== 'absent')) throw error;
    }
  }
  return undefined;
}
