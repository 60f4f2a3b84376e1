import type { Secret } from '../../base/secret.ts';
import type { Journal, SecretStore, ServiceRecord, ServiceStore, Version } from '../../cluster/index.ts';
import type { Admin, User } from '../../identity/index.ts';
import type { ClusterStore, Definition, FederationRole, readDefinition, Service } from '../../service/index.ts';
import type { Audit } from '../audit.ts';
import type { LedgerMember } from '../ledger.ts';
import type { Resolved } from '../peer/addresses.ts';
import type { Credential, PeerAddress, Peers } from '../peer/peer.ts';
import type { Lines } from '../peer/peers.ts';

/** What the coordinator's verbs need: the stores of this cluster, its other managers, and what chance and time say. */
export interface Coordination {
  readonly services: ServiceStore;
  readonly secrets: SecretStore;
  readonly journal: Journal;
  readonly own: OwnServices;
  readonly peers: Peers & Partial<Lines>;
  /** Where a cluster is: by the operator's registry, else by these clusters of a definition. */
  readonly resolve: (clusterId: string, clusters: Definition['clusters']) => Resolved;
  /** Is it this very manager that would be asked there? */
  readonly isSelf: (address: PeerAddress) => boolean;
  /** This cluster, as others reach it and its store. */
  readonly here: {
    readonly clusterId: string;
    readonly endpoint: string;
    readonly instance: string;
    readonly store: ClusterStore;
  };
  readonly mostMembers: number;
  /** An access token of the owner from the grant that is kept with the service. Absent: nobody can be asked. */
  readonly mint?: (service: Service) => Promise<Secret>;
  /** How many jobs of this service a member (`<cluster id>/<service>`) holds. Absent: none ever does. */
  readonly outstanding?: (serviceUid: string, member: string) => Promise<number>;
  /** What the owner has to know about a federation beside its members, such as a grant that has expired. */
  readonly conditions?: (service: Service) => Promise<readonly Condition[]>;
  /** Hears of what somebody may ask about later. */
  readonly audit?: Audit;
  /** Hears of every member that has asked for something, by its signature. */
  readonly heardFrom?: (member: LedgerMember) => void;
  readonly budgets?: Partial<Budgets>;
  readonly now: () => number;
  readonly newUid: () => string;
  readonly newKey: () => Secret;
}

export interface Condition {
  readonly type: string;
  readonly reason: string;
}

/** The service of the coordinator on its own cluster: the verbs of the catalog, with the role that the client cannot say. */
export interface OwnServices {
  /** The definition that `create` would store. All that can refuse it is said, and nothing is changed. */
  plan(principal: Admin | User, body: unknown, federation: FederationRole): Promise<Definition>;

  create(principal: Admin | User, body: unknown, federation: FederationRole): Promise<ServiceRecord>;

  /** Replaces the definition under that version alone, and throws like a lost race when it has another. */
  update(
    principal: Admin | User,
    given: ReadDefinition,
    expected: Version,
    federation: FederationRole | undefined,
  ): Promise<ServiceRecord>;

  /** Removes this very service, whatever its version, and all it has. Another of the same name is left alone. */
  remove(service: Service): Promise<void>;
}

export type ReadDefinition = ReturnType<typeof readDefinition>;

/** Who asks, and with what they may be known elsewhere. */
export interface Caller {
  readonly principal: Admin | User;
  /** An access token; or the Basic credentials that this manager was given, which are good for this manager alone (F30). */
  readonly credential?: Credential;
}

/** Milliseconds. */
export interface Budgets {
  readonly probe: number;
  readonly create: number;
  readonly undo: number;
}

/**
 * 14 s together, since oscar-cli gives up after 20 and a federation that was made after all would surprise its user.
 * Shorter: a slow member fails a create that would have come through. What is not done by then is in the ledger.
 */
const BUDGETS: Budgets = { probe: 3_000, create: 8_000, undo: 3_000 };

export const budgetsOf = ({ budgets }: Pick<Coordination, 'budgets'>): Budgets => ({ ...BUDGETS, ...budgets });
