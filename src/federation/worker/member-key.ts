import { Secret } from '../../lib/secret.ts';
import { keyIdOf, type MemberKey } from '../../peers/index.ts';
import { isRace, type Journal, type SecretRecord } from '../../ports/index.ts';
import type { Services } from '../../services/index.ts';
import { forgetBefore } from './before.ts';
import { isWorker, type Workers } from './worker-role.ts';

type Stores = Pick<Services, 'secrets'>;

/** The key of a worker, and the one that it has replaced, as long as that is good. */
interface KeptKey {
  readonly key: Secret;
  readonly former?: FormerKey;
}

interface FormerKey {
  readonly key: Secret;
  readonly until: number;
}

const ROOM = 'member';

export async function keepMemberKey(
  keyId: string,
  { key, former }: KeptKey,
  { secrets }: Stores,
  expected?: SecretRecord['version'],
): Promise<void> {
  const replaced = former && { former: former.key, until: new Secret(String(former.until)) };
  await secrets.put(ROOM, keyId, { key, ...replaced }, expected);
}

export async function keptKey(keyId: string, { secrets }: Stores): Promise<KeptKey | undefined> {
  const { key, former, until } = (await secrets.get(ROOM, keyId))?.values ?? {};
  if (!key) return undefined;
  return former && until ? { key, former: { key: former, until: Number(until.reveal()) } } : { key };
}

/** The key is in use: what it has replaced is good for nothing from here on. */
async function endFormerKey(keyId: string, stores: Stores): Promise<void> {
  const record = await stores.secrets.get(ROOM, keyId);
  const { key, former } = record?.values ?? {};
  if (!record || !key || !former) return;
  await forgetMember(keyIdOf(former), stores);
  try {
    await keepMemberKey(keyId, { key }, stores, record.version);
  } catch (error) {
    // Somebody else has ended it, or the worker.
    if (!isRace(error)) throw error;
  }
}

/** Everything that is kept for a worker beside the service itself. */
export async function forgetMember(keyId: string, stores: Stores): Promise<void> {
  await forgetBefore(keyId, stores);
  await stores.secrets.remove(ROOM, keyId);
}

/** The worker of a federation under a name, by all keys that open it. */
interface KnownKeys {
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
export async function noteMemberKeyUse(
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
  if (opens) await noteMemberKeyUse(known, key, workers);
  return { keyId: opens ? known.keyId : ownId, isAnother: !opens };
}

type Store = Pick<Services, 'journal' | 'now'>;

/** How far what is remembered may be behind. Shorter: every worker costs more writes. Longer: silence is noticed later. */
export const HEARD_EVERY = 3_600_000;

const placeOf = (uid: string, service: string) => `heard/${uid}/${service}`;

/** What this process has noted, so that it need not even look. */
const noted = new WeakMap<Journal, Map<string, number>>();

function notedIn(journal: Journal): Map<string, number> {
  const times = noted.get(journal) ?? new Map<string, number>();
  noted.set(journal, times);
  return times;
}

/** Remembers that the coordinator of a worker has asked for something, to the hour. */
async function noteHeard(uid: string, service: string, store: Store): Promise<void> {
  const { journal, now } = store;
  const place = placeOf(uid, service);
  const times = notedIn(journal);
  if (now() - (times.get(place) ?? Number.NEGATIVE_INFINITY) < HEARD_EVERY) return;
  times.set(place, now());
  const entry = await journal.read(place);
  const at = entry && Number(entry.state['at']);
  if (at !== undefined && now() - at < HEARD_EVERY) return void times.set(place, at);
  try {
    if (entry) await journal.advance(place, entry.version, { at: now() });
    else await journal.begin(place, { at: now() });
  } catch (error) {
    if (!isRace(error)) throw error;
  }
}

/** When it was last heard, to the hour. Where nobody has noted that, it is from now on. */
export async function heardAt(uid: string, service: string, store: Store): Promise<number> {
  const entry = await store.journal.read(placeOf(uid, service));
  if (entry) return Number(entry.state['at']);
  await noteHeard(uid, service, store);
  return store.now();
}

export async function forgetHeard(uid: string, service: string, { journal }: Store): Promise<void> {
  const place = placeOf(uid, service);
  notedIn(journal).delete(place);
  const entry = await journal.read(place);
  try {
    if (entry) await journal.finish(place, entry.version);
  } catch (error) {
    if (!isRace(error)) throw error;
  }
}
