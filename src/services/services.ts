import type { UserNames } from '../identity/index.ts';
import type { Secret } from '../lib/secret.ts';
import type { KnownStores } from '../model/service/index.ts';
import type {
  Journal,
  ObjectStore,
  ProviderBuckets,
  SecretStore,
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
