import type { Principal } from '../../identity/index.ts';
import { OscarError } from '../../lib/oscar-error.ts';
import { CLUSTER_ADMIN, type Definition, type DefinitionSecrets, type Service } from '../../model/service/index.ts';
import { type Credential, type Peer, type PeerAddress, PeerError } from '../../peers/index.ts';
import type { Caller, Coordination } from './coordination.ts';
import type { LedgerMember } from './ledger.ts';

/** The address of a member, as the ledger stores it. */
export type StoredAddress = Pick<LedgerMember, 'clusterId' | 'endpoint' | 'verify' | 'guarded' | 'kind'>;

export const toStoredAddress = ({ clusterId, endpoint, verify, guarded, kind }: PeerAddress): StoredAddress => ({
  clusterId,
  endpoint,
  verify,
  guarded,
  kind,
});

/** The address of a cluster that is not known yet. */
export const unknownAddress = (clusterId: string): StoredAddress => ({
  clusterId,
  endpoint: '',
  verify: true,
  guarded: true,
  kind: 'oscar',
});

/**
 * The current address of a member. A registered cluster may have moved, and only the registry has its certificate authority.
 */
export function resolveMemberAddress(address: StoredAddress, { resolve }: Pick<Coordination, 'resolve'>): PeerAddress {
  const registered = address.guarded ? undefined : resolve(address.clusterId, {});
  return registered && 'address' in registered ? registered.address : toStoredAddress(address);
}

export function peerFor(address: StoredAddress, { peers, resolve }: Pick<Coordination, 'peers' | 'resolve'>): Peer {
  return peers.at(resolveMemberAddress(address, { resolve }));
}

/** Finds the credential for requests to a member's manager. Throws `refused` if there is none. */
export type MemberCredentials = (address: StoredAddress) => Promise<Credential>;

/** The accounts at other clusters in a definition, with their passwords. */
interface Accounts {
  readonly clusters: Definition['clusters'];
  readonly credentials: DefinitionSecrets['credentials'];
}

/**
 * The caller's own credentials. An access token identifies a user on every cluster. The administrator needs an account at
 * each other cluster, because the password of this cluster never leaves it (F30).
 */
export function callerCredentials(
  { credential }: Caller,
  accounts: Accounts,
  deps: Pick<Coordination, 'resolve' | 'isSelf'>,
): MemberCredentials {
  return async (address) => {
    if (credential?.kind === 'bearer') return credential;
    if (credential && deps.isSelf(resolveMemberAddress(address, deps))) return credential;
    return findAccount(address, accounts);
  };
}

/** The owner's credentials while the owner is absent: a token from the grant, or an account in the definition. */
export function ownerCredentials(
  service: Service,
  accounts: Accounts,
  { getOwnerToken }: Pick<Coordination, 'getOwnerToken'>,
): MemberCredentials {
  return async (address) => {
    if (service.owner === CLUSTER_ADMIN) return findAccount(address, accounts);
    if (!getOwnerToken) {
      throw new PeerError('refused', 'no credentials for this member are stored: update the service once with PUT');
    }
    // A Go manager gets such tokens again and again; others get one to prove the ownership of a worker, and know its key then.
    const audience = address.kind === 'upstream' ? address.clusterId : undefined;
    return { kind: 'bearer', token: await getOwnerToken(service, audience).catch(cannotGetToken) };
  };
}

/**
 * Credentials for a member on a Go manager, which knows no keys: those of the service's owner, who is the caller or has left
 * a grant. The rights of another caller on this cluster imply nothing about that one.
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

/** An invalid grant is reported to its owner; an issuer that is unavailable is a transient failure. */
function cannotGetToken(error: unknown): never {
  if (!(error instanceof OscarError)) throw error;
  if (error.code === 'issuer-unavailable') throw new PeerError('unreachable', error.message, { cause: error });
  const message = `no credentials for this member are stored: update the service once with PUT (${error.message})`;
  throw new PeerError('refused', message, { cause: error });
}

function findAccount({ clusterId }: StoredAddress, { clusters = {}, credentials }: Accounts): Credential {
  const username = Object.hasOwn(clusters, clusterId) ? clusters[clusterId]?.auth_user : undefined;
  const password = credentials[`clusters/${clusterId}/auth_password`];
  if (username && password) return { kind: 'basic', username, password };
  const message = `no account is known for this cluster: set clusters.${clusterId}.auth_user and auth_password, or send the request with an access token`;
  throw new PeerError('refused', message);
}
