import type { Principal } from '../../identity/index.ts';
import { OscarError } from '../../lib/oscar-error.ts';
import { CLUSTER_ADMIN, type Definition, type DefinitionSecrets, type Service } from '../../model/service/index.ts';
import { type Credential, type Peer, type PeerAddress, PeerError } from '../../peers/index.ts';
import type { Caller, Coordination } from './coordination.ts';
import type { LedgerMember } from './ledger.ts';

/** What the ledger keeps of an address. */
export type StoredAddress = Pick<LedgerMember, 'clusterId' | 'endpoint' | 'verify' | 'guarded' | 'kind'>;

export const toStoredAddress = ({ clusterId, endpoint, verify, guarded, kind }: PeerAddress): StoredAddress => ({
  clusterId,
  endpoint,
  verify,
  guarded,
  kind,
});

/** A cluster that nobody knows yet. */
export const unknownAddress = (clusterId: string): StoredAddress => ({
  clusterId,
  endpoint: '',
  verify: true,
  guarded: true,
  kind: 'oscar',
});

/** Where a member is. A registered cluster may have moved since, and its certification authority is in the registry alone. */
export function resolveMemberAddress(place: StoredAddress, { resolve }: Pick<Coordination, 'resolve'>): PeerAddress {
  const registered = place.guarded ? undefined : resolve(place.clusterId, {});
  return registered && 'address' in registered ? registered.address : toStoredAddress(place);
}

export function peerFor(place: StoredAddress, { peers, resolve }: Pick<Coordination, 'peers' | 'resolve'>): Peer {
  return peers.at(resolveMemberAddress(place, { resolve }));
}

/** As whom the manager of a member is asked to make something. Throws `refused` when there is nobody to ask as. */
export type MemberCredentials = (place: StoredAddress) => Promise<Credential>;

/** What a definition says about other clusters, and the passwords that go with it. */
interface Accounts {
  readonly clusters: Definition['clusters'];
  readonly credentials: DefinitionSecrets['credentials'];
}

/**
 * A user is known by their access token everywhere. The administrator is known here alone: elsewhere an account of that
 * cluster is needed, since the password of this one never leaves it (F30).
 */
export function callerCredentials(
  { credential }: Caller,
  accounts: Accounts,
  deps: Pick<Coordination, 'resolve' | 'isSelf'>,
): MemberCredentials {
  return async (place) => {
    if (credential?.kind === 'bearer') return credential;
    if (credential && deps.isSelf(resolveMemberAddress(place, deps))) return credential;
    return findAccount(place, accounts);
  };
}

/** Behind the owner's back, as far as they left something to ask with. */
export function ownerCredentials(
  service: Service,
  accounts: Accounts,
  { getOwnerToken }: Pick<Coordination, 'getOwnerToken'>,
): MemberCredentials {
  return async (place) => {
    if (service.owner === CLUSTER_ADMIN) return findAccount(place, accounts);
    if (!getOwnerToken) {
      throw new PeerError('refused', "nobody's credentials are at hand: PUT the service once");
    }
    return { kind: 'bearer', token: await getOwnerToken(service).catch(cannotGetToken) };
  };
}

/**
 * Who stands for the key of a member whose manager knows no keys: the owner of the service, who is asking or has left
 * something to ask with. What somebody else may do here says nothing about what they may do there.
 */
export function standInCredentials(
  principal: Principal,
  asking: MemberCredentials,
  service: Service,
  accounts: Accounts,
  deps: Pick<Coordination, 'getOwnerToken'>,
): MemberCredentials {
  const uid = principal.kind === 'user' ? principal.uid : undefined;
  const isOwner = service.owner === (principal.kind === 'admin' ? CLUSTER_ADMIN : uid);
  return isOwner ? asking : ownerCredentials(service, accounts, deps);
}

/** What is wrong with a grant is for its owner to know; that an issuer is away is nobody's fault, and passes. */
function cannotGetToken(error: unknown): never {
  if (!(error instanceof OscarError)) throw error;
  if (error.code === 'issuer-unavailable') throw new PeerError('unreachable', error.message, { cause: error });
  const message = `nobody's credentials are at hand: PUT the service once (${error.message})`;
  throw new PeerError('refused', message, { cause: error });
}

function findAccount({ clusterId }: StoredAddress, { clusters = {}, credentials }: Accounts): Credential {
  const username = Object.hasOwn(clusters, clusterId) ? clusters[clusterId]?.auth_user : undefined;
  const password = credentials[`clusters/${clusterId}/auth_password`];
  if (username && password) return { kind: 'basic', username, password };
  const message = `no account there is known: give clusters.${clusterId}.auth_user and auth_password, or ask with an access token`;
  throw new PeerError('refused', message);
}
