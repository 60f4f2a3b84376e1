import type { Secret } from '../../lib/secret.ts';
import { isTimely, keyIdOf, type MemberKey, readMember, type SignedRequest, verify } from '../../peers/index.ts';
import { ServicesError } from '../../services/index.ts';
import { signatureErrors } from '../signature-refusals.ts';
import { findWorkerByKey, findWorkerKeys, recordMemberKeyUse } from './member-key.ts';
import { wasEnded, workerGone } from './tombstones.ts';
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
  const { uid } = parseClaim(request);

  const check = (key: Secret) => {
    const verified = verify(header, request, () => key, catalog.now());
    return 'refused' in verified ? verified.refused : undefined;
  };
  if (brought) {
    const refused = check(brought.key);
    if (refused) throw signatureErrors[refused]();
    return (await findWorkerByKey(brought, service, keyIdOf(brought.key), { catalog })).keyId;
  }
  const known = (await findWorkerKeys(uid, service, { catalog })) ?? (await throwUnknownKey(uid, service, { catalog }));
  const refused = known.keys.map(check);
  const used = known.keys[refused.indexOf(undefined)];
  if (!used) throw signatureErrors[refused.find((each) => each !== 'mismatch') ?? 'mismatch']();
  await recordMemberKeyUse(known, used, { catalog });
  return known.keyId;
}

/**
 * Refuses what {@link authenticateCoordinator} would refuse whatever the body is. The signature covers the body, so that this is
 * all that can be known before the body is read. It proves nothing.
 */
export async function precheckCoordinator(request: ClaimedRequest, { catalog }: Workers): Promise<void> {
  const claim = parseClaim(request);
  const { service, brought } = request;
  if (!brought && !(await findWorkerKeys(claim.uid, service, { catalog })))
    await throwUnknownKey(claim.uid, service, { catalog });
  if (!isTimely(claim, catalog.now())) throw signatureErrors['wrong-time']();
}

type ClaimedRequest = Pick<CoordinatorRequest, 'service' | 'header' | 'brought'>;

function parseClaim({ service, header, brought }: ClaimedRequest) {
  const read = readMember(header);
  if ('problems' in read) throw signatureErrors.unreadable();
  const { uid, member } = read.value;
  if (member.split('/')[1] !== service) throw signatureErrors.mismatch();
  if (brought && (brought.uid !== uid || brought.member !== member)) throw signatureErrors.mismatch();
  return read.value;
}

/** Throws `federation-gone` where there was such a worker, and `not-found` where there never was. */
async function throwUnknownKey(uid: string, service: string, { catalog }: Pick<Workers, 'catalog'>): Promise<never> {
  // The key went with the worker, so this cannot be verified: who knows the random uid is told no more than that.
  if (await wasEnded(uid, service, catalog)) throw workerGone(service);
  throw new ServicesError('not-found', `there is no worker "${service}" of this federation`);
}
