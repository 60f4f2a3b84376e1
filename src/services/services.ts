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
 * The services of this cluster and what is done with them. The verbs hold the rules (who may, in
 * which order, what is undone) and talk to the stores through their ports.
 */
export interface Services {
  readonly services: ServiceStore;
  readonly secrets: SecretStore;
  readonly settings: SettingsStore;
  readonly journal: Journal;
  /** Absent where this manager does not arrange the object store: definitions are kept, buckets are not made. */
  readonly objects?: ObjectStore | undefined;
  /** Stores that the operator named. Absent where none of them has buckets. */
  readonly providers?: ProviderBuckets | undefined;
  /** Ends and forgets the jobs of a service that is gone, by its uid. Absent where no jobs run. */
  readonly forgetJobs?: (serviceUid: string) => Promise<void>;
  readonly stores: KnownStores;
  /** Namespace of the administrator's services; users' ones are derived from it. */
  readonly servicesNamespace: string;
  /** Shown as the owner's name of the administrator's services. */
  readonly managerName: string;
  /** `OIDC_GROUPS`. */
  readonly allowedGroups: readonly string[];
  readonly now: () => number;
  readonly newUid: () => string;
  readonly newToken: () => Secret;
}
