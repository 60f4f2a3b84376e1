import type { Secret } from '../../../base/secret.ts';
import type { MemberKey } from '../../peer/peer.ts';
import { isWorker } from '../worker-role.ts';
import type { Workers } from '../workers.ts';
import { noteHeard } from './heard.ts';
import { endFormerKey, keptKey } from './member-key.ts';

/** The worker of a federation under a name, by all keys that open it. */
export interface KnownKeys {
  readonly uid: string;
  readonly service: string;
  /** Of the key that it has. */
  readonly keyId: string;
  /** The one that it has, then the one before if that is still good. */
  readonly keys: readonly [Secret, ...Secret[]];
}

export async function knownKeys(
  uid: string,
  service: string,
  { catalog }: Pick<Workers, 'catalog'>,
): Promise<KnownKeys | undefined> {
  const record = await catalog.services.get(service);
  const role = isWorker(record) && record.service.federation.uid === uid ? record.service.federation : undefined;
  const kept = role && (await keptKey(role.keyId, catalog));
  if (!kept) return undefined;
  const former = kept.former && catalog.now() < kept.former.until ? [kept.former.key] : [];
  return { uid, service, keyId: role.keyId, keys: [kept.key, ...former] };
}

/** Notes that the coordinator has asked with one of the keys; the first time that it uses the newer one ends the other. */
export async function noteUse(
  { uid, service, keyId, keys }: KnownKeys,
  used: Secret,
  { catalog }: Pick<Workers, 'catalog'>,
) {
  await noteHeard(uid, service, catalog);
  if (keys.length > 1 && used.equals(keys[0])) await endFormerKey(keyId, catalog);
}

/**
 * The id by which the worker that this key opens is known by now. A key that opens none is known by its own: it ends
 * nothing but itself.
 */
export async function openedBy(
  { uid, key }: MemberKey,
  service: string,
  ownId: string,
  workers: Pick<Workers, 'catalog'>,
) {
  const known = await knownKeys(uid, service, workers);
  if (!known) return { keyId: ownId, isAnother: false };
  const opens = known.keys.some((each) => each.equals(key));
  if (opens) await noteUse(known, key, workers);
  return { keyId: opens ? known.keyId : ownId, isAnother: !opens };
}
