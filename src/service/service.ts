import type { Secret } from '../base/secret.ts';
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
}
