import type {
  Capacity,
  JobKey,
  JobRecord,
  JobStore,
  Runner,
  SecretStore,
  ServiceStore,
  StopReason,
} from '../cluster/index.ts';
import type { StorageProvider } from '../config.ts';
import type { ClusterStore } from '../service/index.ts';
import type { ObjectStore } from '../storage/index.ts';

/** The jobs of this cluster and what is done with them: one verb per file. */
export interface Jobs {
  readonly store: JobStore;
  readonly runner: Runner;
  readonly capacity: Capacity;
  readonly services: ServiceStore;
  readonly secrets: SecretStore;
  readonly objects: ObjectStore;
  /** The store of the cluster, as the supervisor reaches it. */
  readonly ownStore: ClusterStore;
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
  /** Puts an accepted job in line, and tells of its end. */
  readonly dispatcher: Dispatching;
}

/** What the verbs need of the dispatcher. */
export interface Dispatching {
  /** A job was accepted and waits. Again: nothing happens. */
  enqueue(job: Pick<JobRecord, 'service' | 'id' | 'owner' | 'demand'>): void;
  /** Somebody wants it to end: now if it waits, as soon as can be if it runs. */
  cancel(key: JobKey, reason: StopReason): Promise<void>;
  /** Resolves when the job is in a final state, with its record; undefined when it is gone. */
  ended(key: JobKey): Promise<JobRecord | undefined>;
}
