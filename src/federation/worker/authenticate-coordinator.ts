import type { Secret } from '../../lib/secret.ts';
import {
  type MemberKey,
  memberKeyId,
  readMember,
  type SignatureProblem,
  type SignedRequest,
  verify,
} from '../../peers/index.ts';
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
  /**
   * The key itself, sent by a coordinator that ends a worker which may never have been created. It can end only a worker
   * with that key.
   */
  readonly brought?: MemberKey | undefined;
}

/**
 * Verifies that a request is signed by the coordinator of a worker, and returns the id of the worker's current key. These
 * requests are idempotent, so nonces need not be stored.
 */
export async function authenticateCoordinator(request: CoordinatorRequest, { catalog }: Workers): Promise<string> {
  const { service, brought } = request;
  if (brought) {
    verifyBrought(request, brought.key, catalog.now());
    return (await findWorkerByKey(brought, service, memberKeyId(brought.key), { catalog })).keyId;
  }
  const { known, used } = await verifyWithKnownKeys(request, { catalog });
  await recordMemberKeyUse(known, used, { catalog });
  return known.keyId;
}

/**
 * Rejects what {@link authenticateCoordinator} would reject, before the body is read: the signature covers the digest that the
 * request announces. Whether the body has that digest is checked when it has been read.
 */
export async function precheckCoordinator(request: CoordinatorRequest, { catalog }: Workers): Promise<void> {
  if (request.brought) verifyBrought(request, request.brought.key, catalog.now());
  else await verifyWithKnownKeys(request, { catalog });
}

function verifyBrought(request: CoordinatorRequest, key: Secret, now: number): void {
  parseClaim(request);
  const refused = findRefusal(request, key, now);
  if (refused) throw signatureErrors[refused]();
}

/** While the key of a worker is replaced, it has two. */
async function verifyWithKnownKeys(request: CoordinatorRequest, { catalog }: Pick<Workers, 'catalog'>) {
  const { service } = request;
  const { uid } = parseClaim(request);
  const known = (await findWorkerKeys(uid, service, { catalog })) ?? (await throwUnknownKey(uid, service, { catalog }));
  const refused = known.keys.map((key) => findRefusal(request, key, catalog.now()));
  const used = known.keys[refused.indexOf(undefined)];
  if (!used) throw signatureErrors[refused.find((each) => each !== 'mismatch') ?? 'mismatch']();
  return { known, used };
}

function findRefusal(request: CoordinatorRequest, key: Secret, now: number): SignatureProblem | undefined {
  const verified = verify(request.header, request, () => key, now);
  return 'refused' in verified ? verified.refused : undefined;
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
  // The key was deleted with the worker, so the signature cannot be verified. A caller who knows the random uid learns only
  // that the worker is gone.
  if (await wasEnded(uid, service, catalog)) throw workerGone(service);
  throw new ServicesError('not-found', `this federation has no worker "${service}"`);
}
