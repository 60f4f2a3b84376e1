import type { Secret } from '../../lib/secret.ts';
import { isTimely, keyIdOf, type MemberKey, readMember, type SignedRequest, verify } from '../../peers/index.ts';
import { ServicesError } from '../../services/index.ts';
import { refusals } from '../signature-refusals.ts';
import { knownKeys, noteMemberKeyUse, openedBy } from './member-key.ts';
import { gone, isBuried } from './tombstones.ts';
import type { Workers } from './worker-role.ts';

/** A request that claims to come from the coordinator of a worker. */
export interface CoordinatorRequest extends SignedRequest {
  /** The worker that it is about. */
  readonly service: string;
  /** `X-Oscar-Member`. */
  readonly header: string;
  /** The key itself, from who ends a worker that may never have been made. It can only ever end what has that key. */
  readonly brought?: MemberKey | undefined;
}

/**
 * The id of the key that the worker has which a request is signed for. Requests of this kind may come twice, since the second changes nothing,
 * so that nonces need not be remembered.
 */
export async function authenticateCoordinator(request: CoordinatorRequest, { catalog }: Workers): Promise<string> {
  const { service, header, brought } = request;
  const { uid } = claimOf(request);

  const check = (key: Secret) => {
    const verified = verify(header, request, () => key, catalog.now());
    return 'refused' in verified ? verified.refused : undefined;
  };
  if (brought) {
    const refused = check(brought.key);
    if (refused) throw refusals[refused]();
    return (await openedBy(brought, service, keyIdOf(brought.key), { catalog })).keyId;
  }
  const known = (await knownKeys(uid, service, { catalog })) ?? (await noKey(uid, service, { catalog }));
  const refused = known.keys.map(check);
  const used = known.keys[refused.indexOf(undefined)];
  if (!used) throw refusals[refused.find((each) => each !== 'mismatch') ?? 'mismatch']();
  await noteMemberKeyUse(known, used, { catalog });
  return known.keyId;
}

/**
 * Refuses what {@link authenticateCoordinator} would refuse whatever the body is. The signature covers the body, so that this is
 * all that can be known before the body is read. It proves nothing.
 */
export async function precheckCoordinator(request: ClaimedRequest, { catalog }: Workers): Promise<void> {
  const claim = claimOf(request);
  const { service, brought } = request;
  if (!brought && !(await knownKeys(claim.uid, service, { catalog }))) await noKey(claim.uid, service, { catalog });
  if (!isTimely(claim, catalog.now())) throw refusals['wrong-time']();
}

type ClaimedRequest = Pick<CoordinatorRequest, 'service' | 'header' | 'brought'>;

function claimOf({ service, header, brought }: ClaimedRequest) {
  const read = readMember(header);
  if ('problems' in read) throw refusals.unreadable();
  const { uid, member } = read.value;
  if (member.split('/')[1] !== service) throw refusals.mismatch();
  if (brought && (brought.uid !== uid || brought.member !== member)) throw refusals.mismatch();
  return read.value;
}

/** Throws `federation-gone` where there was such a worker, and `not-found` where there never was. */
async function noKey(uid: string, service: string, { catalog }: Pick<Workers, 'catalog'>): Promise<never> {
  // The key went with the worker, so this cannot be verified: who knows the random uid is told no more than that.
  if (await isBuried(uid, service, catalog)) throw gone(service);
  throw new ServicesError('not-found', `there is no worker "${service}" of this federation`);
}
