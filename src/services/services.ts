import type { Admin, User, UserNames } from '../identity/index.ts';
import type { Secret } from '../lib/secret.ts';
import type { Version } from '../lib/version.ts';
import type { KnownStores, readDefinition } from '../model/service/index.ts';
import type {
  Journal,
  ObjectStore,
  ProviderBuckets,
  SecretStore,
  ServiceRecord,
  ServiceStore,
  SettingsStore,
} from '../ports/index.ts';

/**
 * What the operations on services need. The operations contain the rules (who may, in which order, what is undone) and use
 * the stores through their ports.
 */
export interface Services {
  readonly services: ServiceStore;
  readonly secrets: SecretStore;
  readonly settings: SettingsStore;
  readonly journal: Journal;
  /** Absent if this manager does not manage an object store: definitions are stored, but no buckets are created. */
  readonly objects?: ObjectStore | undefined;
  /** Named stores of the operator. Absent if none of them has buckets. */
  readonly providers?: ProviderBuckets | undefined;
  /** Ends and deletes the jobs of a removed service, by its uid. Absent if no jobs run here. */
  readonly forgetJobs?: (serviceUid: string) => Promise<void>;
  /** Called for a bucket of a user that a service no longer needs and that has files of the user. */
  readonly onBucketKept?: (kept: { readonly bucket: string; readonly user: string; readonly service: string }) => void;
  readonly stores: KnownStores;
  /** Namespace of the administrator's services; the namespaces of users are derived from it. */
  readonly servicesNamespace: string;
  /** Shown as the owner's name of the administrator's services. */
  readonly managerName: string;
  /** `OIDC_GROUPS`. */
  readonly allowedGroups: readonly string[];
  /** How users are named on this cluster. */
  readonly users: UserNames;
  readonly now: () => number;
  readonly newUid: () => string;
  readonly newToken: () => Secret;
}

/** The caller. A federation also needs a credential for other clusters. */
export interface ServiceCaller {
  readonly principal: Admin | User;
}

export interface ChangedService {
  readonly record: ServiceRecord;
  /** Members that do not have the change yet, and why. */
  readonly pending: readonly { readonly member: string; readonly reason: string }[];
}

export interface PlannedMember {
  /** `<cluster id>/<service>`. */
  readonly member: string;
  readonly action: 'create' | 'adopt' | 'update' | 'remove';
  /** Why that would not succeed now. */
  readonly problem?: string;
}

/** Plans for services with members on other clusters. `src/federation` implements them. */
export interface FederationPlans<Caller extends ServiceCaller = ServiceCaller> {
  planCreate(caller: Caller, body: unknown): Promise<readonly PlannedMember[]>;
  planChange(caller: Caller, body: unknown, record: ServiceRecord): Promise<PlannedChange>;
}

export interface PlannedChange {
  /** The whole definition: members that the request does not name stay. */
  readonly given: ReturnType<typeof readDefinition>;
  readonly members: readonly PlannedMember[];
}

/** A worker that a removal has left on its cluster. */
export interface LeftBehind {
  readonly member: string;
  readonly reason: string;
}

/** Operations on services that have members on other clusters. `src/federation` implements them. */
export interface FederatedServices<Caller extends ServiceCaller = ServiceCaller> extends FederationPlans<Caller> {
  create(caller: Caller, body: unknown): Promise<ChangedService>;
  change(caller: Caller, body: unknown, ifMatch: Version | undefined): Promise<ChangedService>;
  /**
   * Also ends the members; without `cascade` they stay as plain services. Returns the members that this manager may be unable
   * to end later, and why they still exist.
   */
  remove(caller: Caller, record: ServiceRecord, cascade: boolean): Promise<LeftBehind[]>;
  /** Makes a worker a plain service, if its coordinator has been silent for long enough; throws otherwise. */
  takeOverWorker(caller: Caller, record: ServiceRecord, ifMatch: Version | undefined): Promise<void>;
  /** Notifies the coordinator, then removes the worker. */
  removeWorker(caller: Caller, name: string, namespace: string | undefined): Promise<void>;
}
