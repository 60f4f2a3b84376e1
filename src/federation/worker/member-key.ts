import { Secret } from '../../lib/secret.ts';
import { type MemberKey, memberKeyId } from '../../peers/index.ts';
import { isRace, type Journal, type SecretRecord } from '../../ports/index.ts';
import type { Services } from '../../services/index.ts';
import { deleteOriginal } from './original-service.ts';
import { isWorker, type Workers } from './worker-role.ts';

type Stores = Pick<Services, 'secrets'>;

/** The key of a worker, and the key that it replaced while that is still valid. */
interface StoredKey {
  readonly key: Secret;
  readonly former?: FormerKey;
  /** The id of the key that it replaced, also when that is no longer valid. */
  readonly replaced?: string | undefined;
}

interface FormerKey {
  readonly key: Secret;
  readonly until: number;
}

const SECRET_KIND = 'member';

export async function storeMemberKey(
  keyId: string,
  { key, former, replaced }: StoredKey,
  { secrets }: Stores,
  expected?: SecretRecord['version'],
): Promise<void> {
  const values = {
    key,
    ...(former && { former: former.key, until: new Secret(String(former.until)) }),
    ...(replaced !== undefined && { replaced: new Secret(replaced) }),
  };
  await secrets.put(SECRET_KIND, keyId, values, expected);
}

export async function loadMemberKey(keyId: string, { secrets }: Stores): Promise<StoredKey | undefined> {
  const { key, former, until, replaced } = (await secrets.get(SECRET_KIND, keyId))?.values ?? {};
  if (!key) return undefined;
  const valid = former && until && { former: { key: former, until: Number(until.reveal()) } };
  return { key, ...valid, ...(replaced && { replaced: replaced.reveal() }) };
}

/** The coordinator uses the new key, so the former key becomes invalid. */
async function expireFormerKey(keyId: string, stores: Stores): Promise<void> {
  const record = await stores.secrets.get(SECRET_KIND, keyId);
  const { key, former } = record?.values ?? {};
  if (!record || !key || !former) return;
  await deleteMemberData(memberKeyId(former), stores);
  try {
    await storeMemberKey(keyId, { key, replaced: memberKeyId(former) }, stores, record.version);
  } catch (error) {
    // Another request has removed the former key, or the worker.
    if (!isRace(error)) throw error;
  }
}

/** Deletes everything that is stored for a worker besides the service itself. */
export async function deleteMemberData(keyId: string, stores: Stores): Promise<void> {
  await deleteOriginal(keyId, stores);
  await stores.secrets.remove(SECRET_KIND, keyId);
}

/** The valid keys of a worker of a federation. */
interface WorkerKeys {
  readonly uid: string;
  readonly service: string;
  /** The id of the current key. */
  readonly keyId: string;
  /** The current key, then the former key if it is still valid. */
  readonly keys: readonly [Secret, ...Secret[]];
}

export async function findWorkerKeys(
  uid: string,
  service: string,
  { catalog }: Pick<Workers, 'catalog'>,
): Promise<WorkerKeys | undefined> {
  const record = await catalog.services.get(service);
  const role = isWorker(record) && record.service.federation.uid === uid ? record.service.federation : undefined;
  const kept = role && (await loadMemberKey(role.keyId, catalog));
  if (!kept) return undefined;
  const former = kept.former && catalog.now() < kept.former.until ? [kept.former.key] : [];
  return { uid, service, keyId: role.keyId, keys: [kept.key, ...former] };
}

/** Notes that the coordinator has asked with one of the keys; the first time that it uses the newer one ends the other. */
export async function recordMemberKeyUse(
  { uid, service, keyId, keys }: WorkerKeys,
  used: Secret,
  { catalog }: Pick<Workers, 'catalog'>,
) {
  await recordContact(uid, service, catalog);
  if (keys.length > 1 && used.equals(keys[0])) await expireFormerKey(keyId, catalog);
}

/**
 * The current key id of the worker that this key is valid for. A key that is valid for no worker keeps its own id: ending it
 * affects nothing else.
 */
export async function findWorkerByKey(
  { uid, key }: MemberKey,
  service: string,
  ownId: string,
  workers: Pick<Workers, 'catalog'>,
) {
  const known = await findWorkerKeys(uid, service, workers);
  if (!known) return { keyId: ownId, isAnother: false };
  const opens = known.keys.some((each) => each.equals(key));
  if (opens) await recordMemberKeyUse(known, key, workers);
  return { keyId: opens ? known.keyId : ownId, isAnother: !opens };
}

type Store = Pick<Services, 'journal' | 'now'>;

/**
 * The resolution of the last contact. A smaller value costs more writes per worker; a larger value detects a silent
 * coordinator later.
 */
export const CONTACT_RESOLUTION = 3_600_000;

const contactKey = (uid: string, service: string) => `heard/${uid}/${service}`;

/** What this process has already written, which saves reading the journal. */
const recordedContacts = new WeakMap<Journal, Map<string, number>>();

function contactsOfProcess(journal: Journal): Map<string, number> {
  const times = recordedContacts.get(journal) ?? new Map<string, number>();
  recordedContacts.set(journal, times);
  return times;
}

/** Records that the coordinator of a worker sent a request, with a resolution of one hour. */
async function recordContact(uid: string, service: string, store: Store): Promise<void> {
  const { journal, now } = store;
  const place = contactKey(uid, service);
  const times = contactsOfProcess(journal);
  if (now() - (times.get(place) ?? Number.NEGATIVE_INFINITY) < CONTACT_RESOLUTION) return;
  times.set(place, now());
  const entry = await journal.read(place);
  const at = entry && Number(entry.state['at']);
  if (at !== undefined && now() - at < CONTACT_RESOLUTION) return void times.set(place, at);
  try {
    if (entry) await journal.advance(place, entry.version, { at: now() });
    else await journal.begin(place, { at: now() });
  } catch (error) {
    if (!isRace(error)) throw error;
  }
}

/** When the coordinator last sent a request, to the hour. If no contact is recorded, records the current time. */
export async function lastContact(uid: string, service: string, store: Store): Promise<number> {
  const entry = await store.journal.read(contactKey(uid, service));
  if (entry) return Number(entry.state['at']);
  await recordContact(uid, service, store);
  return store.now();
}

export async function forgetContact(uid: string, service: string, { journal }: Store): Promise<void> {
  const place = contactKey(uid, service);
  contactsOfProcess(journal).delete(place);
  const entry = await journal.read(place);
  try {
    if (entry) await journal.finish(place, entry.version);
  } catch (error) {
    if (!isRace(error)) throw error;
  }
}
