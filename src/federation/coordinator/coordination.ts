import type { Admin, User } from '../../identity/index.ts';
import type { Secret } from '../../lib/secret.ts';
import type { Version } from '../../lib/version.ts';
import type { ClusterStore, Definition, FederationRole, readDefinition, Service } from '../../model/service/index.ts';
import type { Credential, PeerAddress, PeerConnections, Peers, Resolved } from '../../peers/index.ts';
import type { Journal, SecretStore, ServiceRecord, ServiceStore } from '../../ports/index.ts';
import type { Audit } from '../audit.ts';
import type { LedgerMember } from './ledger.ts';
import type { MemberHealthChange } from './results.ts';

/** What the coordinator's verbs need: the stores of this cluster, its other managers, and what chance and time say. */
export interface Coordination {
  readonly services: ServiceStore;
  readonly secrets: SecretStore;
  readonly journal: Journal;
  readonly own: OwnServices;
  readonly peers: Peers & Partial<PeerConnections>;
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
  readonly getOwnerToken?: (service: Service) => Promise<Secret>;
  /** How many jobs of this service a member (`<cluster id>/<service>`) holds. Absent: none ever does. */
  readonly outstanding?: (serviceUid: string, member: string) => Promise<number>;
  /** What the owner has to know about a federation beside its members, such as a grant that has expired. */
  readonly conditions?: (service: Service) => Promise<readonly FederationCondition[]>;
  /** Hears of what somebody may ask about later. */
  readonly audit?: Audit;
  /** Hears of every member that cannot be brought to what it should be, when that or its reason is new; and when it can again. */
  readonly onMemberHealth?: (look: MemberHealthChange) => void;
  /** Hears of every member that has asked for something, by its signature. */
  readonly onMemberRequest?: (member: LedgerMember) => void;
  /** Other times than the usual ones, by the kind of the member. */
  readonly budgets?: Partial<Record<LedgerMember['kind'], Partial<Budgets>>>;
  readonly now: () => number;
  readonly newUid: () => string;
  readonly newKey: () => Secret;
}

export interface FederationCondition {
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

/** Milliseconds for which a member is waited for. */
interface Budgets {
  readonly probe: number;
  readonly create: number;
  /** What takes longer goes on, and is looked at by the reconciler. */
  readonly undo: number;
}

/**
 * 14 s together, since oscar-cli gives up after 20 and a federation that was made after all would surprise its user.
 * Shorter: a slow member fails a create that would have come through. What is not done by then is in the ledger. A manager
 * written in Go takes 8 to 12 s to make a service and as long to delete one, so that its parts may take longer, but not all
 * of them: see {@link LONGEST_CREATE}.
 */
const BUDGETS: Readonly<Record<LedgerMember['kind'], Budgets>> = {
  oscar: { probe: 3_000, create: 8_000, undo: 3_000 },
  upstream: { probe: 10_000, create: 16_000, undo: 3_000 },
};

/** Milliseconds for a whole create with a member whose manager is written in Go: a second before oscar-cli gives up. */
export const LONGEST_CREATE = 19_000;

export const budgetsFor = (kind: LedgerMember['kind'], { budgets }: Pick<Coordination, 'budgets'>): Budgets => ({
  ...BUDGETS[kind],
  ...budgets?.[kind],
});
