import type { Admin, IssuerAliases, User } from '../../identity/index.ts';
import type { Secret } from '../../lib/secret.ts';
import type { Version } from '../../lib/version.ts';
import type { ClusterStore, Definition, FederationRole, readDefinition, Service } from '../../model/service/index.ts';
import type { Credential, PeerAddress, PeerConnections, Peers, Resolved } from '../../peers/index.ts';
import type { Journal, SecretStore, ServiceRecord, ServiceStore } from '../../ports/index.ts';
import type { Audit } from '../audit.ts';
import type { LedgerMember } from './ledger.ts';
import type { MemberHealthChange } from './results.ts';

/** What the coordinator's operations need: the stores of this cluster, the other managers, randomness and the clock. */
export interface Coordination {
  readonly services: ServiceStore;
  readonly secrets: SecretStore;
  readonly journal: Journal;
  readonly own: OwnServices;
  readonly peers: Peers & Partial<PeerConnections>;
  /** Resolves the address of a cluster: from the operator's registry, else from the `clusters` of a definition. */
  readonly resolve: (clusterId: string, clusters: Definition['clusters']) => Resolved;
  /** Whether the address is that of this manager. */
  readonly isSelf: (address: PeerAddress) => boolean;
  /** This cluster, with the addresses at which others reach it and its store. */
  readonly here: {
    readonly clusterId: string;
    readonly endpoint: string;
    readonly instance: string;
    readonly store: ClusterStore;
    /** The issuers of its users. */
    readonly issuers: IssuerAliases;
  };
  readonly mostMembers: number;
  /** The longest time until the reconciler tries a member again that has just failed, in milliseconds. */
  readonly nextAttemptMs?: number;
  /**
   * Mints an access token of the owner from the grant of the service; with an audience, for that cluster only if possible.
   * Absent if no issuer is configured.
   */
  readonly getOwnerToken?: (service: Service, audience?: string) => Promise<Secret>;
  /** Absent if no issuer is configured. */
  readonly refreshTokens?: RefreshTokens;
  /** How many jobs of this service a member (`<cluster id>/<service>`) holds. Absent if jobs are never delegated. */
  readonly outstanding?: (serviceUid: string, member: string) => Promise<number>;
  /** What the owner must know about a federation besides its members, such as an expired grant. */
  readonly conditions?: (service: Service) => Promise<readonly FederationCondition[]>;
  /** Receives events for the audit log. */
  readonly audit?: Audit;
  /** Called when a member cannot be brought up to date, if that or its reason is new, and when it can again. */
  readonly onMemberHealth?: (look: MemberHealthChange) => void;
  /** Called for every authenticated request of a member. */
  readonly onMemberRequest?: (member: LedgerMember) => void;
  /** Overrides of the default deadlines, by kind of member. */
  readonly budgets?: Partial<Record<LedgerMember['kind'], Partial<Budgets>>>;
  readonly now: () => number;
  readonly newUid: () => string;
  readonly newKey: () => Secret;
}

/** The refresh tokens of users. `AccessTokenSource` implements it. */
export interface RefreshTokens {
  /**
   * Redeems a token that is new here, and throws if it is not valid or another user's. What the issuer returned is retained
   * until `releaseToken`, for a day at most, so that the same token can be sent again. `unchecked`: this manager may not
   * redeem it.
   */
  proveToken(token: Secret, user: User): Promise<'proven' | 'unchecked'>;
  releaseToken(token: Secret): Promise<void>;
  /** Redeems the token of a service if that was never done. What the issuer answers is a condition of the federation. */
  proveGrantOf(service: Service): Promise<void>;
}

export interface FederationCondition {
  readonly type: string;
  readonly reason: string;
}

/** The coordinator's own service: the operations of `src/services`, with the role that a client cannot set. */
export interface OwnServices {
  /** The definition that `create` would store. Throws all reasons to reject it, and changes nothing. */
  plan(principal: Admin | User, body: unknown, federation: FederationRole): Promise<Definition>;

  create(principal: Admin | User, body: unknown, federation: FederationRole): Promise<ServiceRecord>;

  /** Replaces the definition if the service still has that version; throws `old-version` otherwise. */
  update(
    principal: Admin | User,
    given: ReadDefinition,
    expected: Version,
    federation: FederationRole | undefined,
  ): Promise<ServiceRecord>;

  /**
   * Removes this service, by uid and in any version, with everything it has. Another service of the same name is not
   * touched.
   */
  remove(service: Service): Promise<void>;
}

export type ReadDefinition = ReturnType<typeof readDefinition>;

/** The caller, and the credential with which other managers may identify the caller. */
export interface Caller {
  readonly principal: Admin | User;
  /** An access token; or the Basic credentials of this manager, which are valid for this manager only (F30). */
  readonly credential?: Credential;
}

/** Deadlines of requests to a member, in milliseconds. */
interface Budgets {
  readonly probe: number;
  readonly create: number;
  /** An undo that takes longer continues, and the reconciler checks it. */
  readonly undo: number;
}

/**
 * 14 s in total: oscar-cli gives up after 20 s, and a federation that is created after that would surprise its user. Smaller
 * values fail a create that a slow member would have completed. What is not done by then is in the ledger. A Go manager
 * takes 8 to 12 s to create a service and as long to delete one, so its steps may take longer, but not all of them: see
 * {@link LONGEST_CREATE}.
 */
const BUDGETS: Readonly<Record<LedgerMember['kind'], Budgets>> = {
  oscar: { probe: 3_000, create: 8_000, undo: 3_000 },
  upstream: { probe: 10_000, create: 16_000, undo: 3_000 },
};

/** Milliseconds for a whole create with a member on a Go manager: one second before oscar-cli gives up. */
export const LONGEST_CREATE = 19_000;

export const budgetsFor = (kind: LedgerMember['kind'], { budgets }: Pick<Coordination, 'budgets'>): Budgets => ({
  ...BUDGETS[kind],
  ...budgets?.[kind],
});
