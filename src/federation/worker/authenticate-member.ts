import type { Secret } from '../../base/secret.ts';
import { CatalogError } from '../../catalog/index.ts';
import type { MemberKey } from '../peer/peer.ts';
import { refusals } from '../peer/refusals.ts';
import { keyIdOf, type SignedRequest, verify } from '../peer/signature.ts';
import { readMember } from '../peer/wire.ts';
import { knownKeys, noteUse, openedBy } from './kept/known-keys.ts';
import { gone, hasEnded } from './kept/tombstones.ts';
import type { Workers } from './workers.ts';

/** A request that claims to come from the coordinator of a worker. */
export interface MemberRequest extends SignedRequest {
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
export async function authenticateMember(request: MemberRequest, { catalog }: Workers): Promise<string> {
  const { service, header, brought } = request;
  const read = readMember(header);
  if ('problems' in read) throw refusals.unreadable();
  const { uid, member } = read.value;
  if (member.split('/')[1] !== service) throw refusals.mismatch();
  if (brought && (brought.uid !== uid || brought.member !== member)) throw refusals.mismatch();

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
  await noteUse(known, used, { catalog });
  return known.keyId;
}

/** Throws `federation-gone` where there was such a worker, and `not-found` where there never was. */
async function noKey(uid: string, service: string, { catalog }: Pick<Workers, 'catalog'>): Promise<never> {
  // The key went with the worker, so this cannot be verified: who knows the random uid is told no more than that.
  if (await hasEnded(uid, service, catalog)) throw gone(service);
  throw new CatalogError('not-found', `there is no worker "${service}" of this federation`);
}
