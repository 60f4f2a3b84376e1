import type { Secret } from '../../lib/secret.ts';
import type { ServiceDocument } from './schema.ts';

/** The owner of services that the cluster's administrator created. No user can have this uid. */
export const CLUSTER_ADMIN = 'cluster_admin';

/** Keys that only the manager sets. Values that a client sends are ignored. */
type ServerKey = 'token' | 'owner' | 'namespace' | 'bucket_list' | 'volume_status' | 'deployment';

/**
 * What the owner specified, in canonical form: defaults are applied and paths normalised. It contains nothing that the
 * manager adds when it shows a service (reserved labels and annotations, the cluster's own store), and no secrets (their
 * names stay, their values are blank, see `secrets.ts`). Equivalent definitions are equal.
 */
export type Definition = Readonly<Omit<ServiceDocument, ServerKey>>;

/** A service of this cluster: its definition and what the manager knows about it. */
export interface Service {
  /** Random. A later service of the same name has another uid. */
  readonly uid: string;
  readonly definition: Definition;
  /** Uid of a user, or {@link CLUSTER_ADMIN}. */
  readonly owner: string;
  /** The owner's display name, as the label `owner_name` has it. */
  readonly ownerName: string;
  readonly namespace: string;
  /** Allows its holder to invoke this service; it is in the environment of the script. */
  readonly token: Secret;
  /** Absent without a federation. Stored outside of the definition, so that users cannot set it (F43). */
  readonly federation?: FederationRole;
}

/** The role of a service in its federation (docs/concepts.md). */
export type FederationRole =
  /** It has the definition with the members, and is the only writer of the topology. */
  | {
      readonly role: 'coordinator';
      /** Random id of the federation. */
      readonly uid: string;
      /** Increases with every change of the federation. */
      readonly revision: number;
      /** Whether all members are created. Until then the service accepts no jobs. */
      readonly committed: boolean;
    }
  /** Created by the coordinator of another cluster, or adopted by it. */
  | {
      readonly role: 'worker';
      readonly uid: string;
      readonly revision: number;
      /** SHA-256 of the key that it shares with the coordinator. */
      readonly keyId: string;
      /** Digest of the definition that the coordinator sent, with which the coordinator detects changes. */
      readonly digest: string;
      readonly origin: FederationOrigin;
      /** The service existed before, and is restored when it leaves the federation. */
      readonly adopted: boolean;
    };

/** The coordinator of a worker, with its addresses. */
export interface FederationOrigin {
  readonly clusterId: string;
  readonly service: string;
  /** Address of its manager. */
  readonly endpoint: string;
  /** Address of its object store. */
  readonly store: string;
}
