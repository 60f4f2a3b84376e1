import type { Secret } from '../../lib/secret.ts';
import type { ServiceDocument } from './schema.ts';

/** The owner of services that the cluster's administrator made. No user may be called that. */
export const CLUSTER_ADMIN = 'cluster_admin';

/** Keys that the manager writes and whatever a client sends in them is ignored. */
type ServerKey = 'token' | 'owner' | 'namespace' | 'bucket_list' | 'volume_status' | 'deployment';

/**
 * What the owner decides, in canonical form: defaults applied, paths normalised, nothing in it that the manager adds
 * when it shows a service (reserved labels and annotations, the cluster's own store) and no secret (their names stay,
 * their values are blank, see `secrets.ts`). Two definitions that mean the same are equal.
 */
export type Definition = Readonly<Omit<ServiceDocument, ServerKey>>;

/** A service of this cluster: its definition and what the manager knows about it. */
export interface Service {
  /** Random; another service of the same name, later, has another. */
  readonly uid: string;
  readonly definition: Definition;
  /** Uid of a user, or {@link CLUSTER_ADMIN}. */
  readonly owner: string;
  /** The owner's display name, as the label `owner_name` has it. */
  readonly ownerName: string;
  readonly namespace: string;
  /** Invokes this service, and is in the environment of its script. */
  readonly token: Secret;
  /** Absent when it stands alone. Kept beside the definition, so that nobody can say it about their own service (F43). */
  readonly federation?: FederationRole;
}

/** What a service is in the federation that it belongs to (docs/concepts.md). */
export type FederationRole =
  /** Where the definition with the members is: the one writer of the topology. */
  | {
      readonly role: 'coordinator';
      /** Names this federation. Random. */
      readonly uid: string;
      /** Grows with every change of the federation. */
      readonly revision: number;
      /** Are all members made? Until then it takes no work. */
      readonly committed: boolean;
    }
  /** Made by the coordinator of another cluster, or lent to it by its owner. */
  | {
      readonly role: 'worker';
      readonly uid: string;
      readonly revision: number;
      /** SHA-256 of the key that it shares with the coordinator. */
      readonly keyId: string;
      /** Of the definition that the coordinator sent, by which it sees whether it still is that. */
      readonly digest: string;
      readonly origin: FederationOrigin;
      /** It was there before, and will be what it was. */
      readonly adopted: boolean;
    };

/** The coordinator of a worker, as it is reached. */
export interface FederationOrigin {
  readonly clusterId: string;
  readonly service: string;
  /** Address of its manager. */
  readonly endpoint: string;
  /** Address of its object store. */
  readonly store: string;
}
