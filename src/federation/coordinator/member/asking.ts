import { OscarError } from '../../../base/oscar-error.ts';
import type { Principal } from '../../../identity/index.ts';
import { CLUSTER_ADMIN, type Definition, type DefinitionSecrets, type Service } from '../../../service/index.ts';
import { type Credential, PeerError } from '../../peer/peer.ts';
import type { Caller, Coordination } from '../coordination.ts';
import { addressOf, type Place } from './member-address.ts';

/** As whom the manager of a member is asked to make something. Throws `refused` when there is nobody to ask as. */
export type Asking = (place: Place) => Promise<Credential>;

/** What a definition says about other clusters, and the passwords that go with it. */
export interface Accounts {
  readonly clusters: Definition['clusters'];
  readonly credentials: DefinitionSecrets['credentials'];
}

/**
 * A user is known by their access token everywhere. The administrator is known here alone: elsewhere an account of that
 * cluster is needed, since the password of this one never leaves it (F30).
 */
export function asCaller(
  { credential }: Caller,
  accounts: Accounts,
  deps: Pick<Coordination, 'resolve' | 'isSelf'>,
): Asking {
  return async (place) => {
    if (credential?.kind === 'bearer') return credential;
    if (credential && deps.isSelf(addressOf(place, deps))) return credential;
    return accountAt(place, accounts);
  };
}

/** Somebody whose own credentials are good here alone, such as the token of a service. */
export const asNobody: Asking = async () => {
  throw new PeerError(
    'refused',
    "it is made with the owner's grant in a while, or at the owner's next PUT of the service",
  );
};

/** Behind the owner's back, as far as they left something to ask with. */
export function asOwner(service: Service, accounts: Accounts, { mint }: Pick<Coordination, 'mint'>): Asking {
  return async (place) => {
    if (service.owner === CLUSTER_ADMIN) return accountAt(place, accounts);
    if (!mint) {
      throw new PeerError('refused', "nobody's credentials are at hand: PUT the service once");
    }
    return { kind: 'bearer', token: await mint(service).catch(cannotMint) };
  };
}

/**
 * Who stands for the key of a member whose manager knows no keys: the owner of the service, who is asking or has left
 * something to ask with. What somebody else may do here says nothing about what they may do there.
 */
export function asStandIn(
  principal: Principal,
  asking: Asking,
  service: Service,
  accounts: Accounts,
  deps: Pick<Coordination, 'mint'>,
): Asking {
  const uid = principal.kind === 'user' ? principal.uid : undefined;
  const isOwner = service.owner === (principal.kind === 'admin' ? CLUSTER_ADMIN : uid);
  return isOwner ? asking : asOwner(service, accounts, deps);
}

/** What is wrong with a grant is for its owner to know; that an issuer is away is nobody's fault, and passes. */
function cannotMint(error: unknown): never {
  if (!(error instanceof OscarError)) throw error;
  if (error.code === 'issuer-unavailable') throw new PeerError('unreachable', error.message, { cause: error });
  const message = `nobody's credentials are at hand: PUT the service once (${error.message})`;
  throw new PeerError('refused', message, { cause: error });
}

function accountAt({ clusterId }: Place, { clusters = {}, credentials }: Accounts): Credential {
  const username = Object.hasOwn(clusters, clusterId) ? clusters[clusterId]?.auth_user : undefined;
  const password = credentials[`clusters/${clusterId}/auth_password`];
  if (username && password) return { kind: 'basic', username, password };
  const message = `no account there is known: give clusters.${clusterId}.auth_user and auth_password, or ask with an access token`;
  throw new PeerError('refused', message);
}
