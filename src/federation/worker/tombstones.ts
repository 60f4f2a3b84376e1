import { FederationError } from '../../peers/index.ts';
import { isRace, type Journal, type JournalEntry } from '../../ports/index.ts';
import { type Services, ServicesError } from '../../services/index.ts';

/**
 * Records that the worker with a key was ended, so that a request that arrives later does not create it again. Stored by key
 * id, because each addition of a member has a new key. It is written before anything else, so recovery knows what to finish.
 */
interface Tombstone {
  readonly service: string;
  readonly reason: 'ended-by-coordinator' | 'removed-by-owner' | 'taken-over';
  readonly begun: number;
  readonly until: number;
  /** How the worker is ended; null once that is done, or if there was no worker. */
  readonly ending: Ending | null;
  /** The key was registered, but no worker on this cluster had it. */
  readonly stray?: boolean;
}

export type Ending = 'undo' | 'detach';

type Store = Pick<Services, 'journal' | 'now'>;

/**
 * How long a late create is rejected, and how long the coordinator is told that its worker is gone. With a smaller value a
 * coordinator that was down for a weekend creates the worker again; a larger value makes the journal grow.
 */
const RETENTION = 7 * 24 * 60 * 60_000;

const TOMBSTONES = 'tombstone/';
/** Ended workers by federation and name, which is what a signed request states. It does not state the key. */
const ENDED_WORKERS = 'ended/';

/** Keys that an authenticated probe has announced. */
const EXPECTED_KEYS = 'expected/';

const expectedKey = (keyId: string) => `${EXPECTED_KEYS}${keyId}`;
const tombstoneKey = (keyId: string) => `${TOMBSTONES}${keyId}`;
const endedWorkerKey = (uid: string, service: string) => `${ENDED_WORKERS}${uid}/${service}`;

type NewTombstone = Pick<Tombstone, 'service' | 'reason' | 'stray'> & { readonly ending: Ending };

/** Writes a tombstone. If it exists already, updates how the worker ended. */
export async function writeTombstone(
  keyId: string,
  { service, reason, ending, stray = false }: NewTombstone,
  { journal, now }: Store,
): Promise<void> {
  const begun = now();
  const kept = stray ? { until: begun + STRAY_RETENTION, stray } : { until: begun + RETENTION };
  const fresh = { service, reason, ending, begun, ...kept };
  for (;;) {
    const there = await journal.read(tombstoneKey(keyId));
    try {
      if (there) await journal.advance(there.key, there.version, { ...there.state, ending, begun });
      else await journal.begin(tombstoneKey(keyId), fresh);
      return;
    } catch (error) {
      if (!isRace(error)) throw error;
    }
  }
}

/**
 * Records that an authenticated caller may soon create a worker with this key. A worker is created only with such a key, and
 * a release of any other unknown key stores nothing: an anonymous caller, who can invent keys, leaves no marks.
 */
export async function registerKey(keyId: string, service: string, { journal, now }: Store): Promise<void> {
  const until = now() + STRAY_RETENTION;
  const there = await journal.read(expectedKey(keyId));
  if (there) await ignoreRace(journal.advance(there.key, there.version, { service, until }));
  else await ignoreRace(journal.begin(expectedKey(keyId), { service, until }));
}

export async function isRegistered(keyId: string, { journal, now }: Store): Promise<boolean> {
  const entry = await journal.read(expectedKey(keyId));
  return entry !== undefined && Number(entry.state['until']) > now();
}

/** Throws `old-version` if no probe has registered the key, or if that was too long ago: the coordinator probes again. */
export async function requireRegistered(keyId: string, service: string, store: Store): Promise<void> {
  if (await isRegistered(keyId, store)) return;
  const message = `no probe has announced this key for "${service}": probe it with ?key=<id of the key> before you create it`;
  throw new ServicesError('old-version', message);
}

/** Records that the worker has been ended. */
export async function closeTombstone(keyId: string, { journal }: Store): Promise<void> {
  const there = await journal.read(tombstoneKey(keyId));
  if (!there || there.state['ending'] === null) return;
  await ignoreRace(journal.advance(there.key, there.version, { ...there.state, ending: null }));
}

/**
 * A worker had the key after all: it was being created when the tombstone was written. The tombstone then gets the full
 * retention.
 */
export async function confirmTombstone(keyId: string, { journal }: Store): Promise<void> {
  const there = await journal.read(tombstoneKey(keyId));
  if (!there?.state['stray']) return;
  const { stray: _, ...state } = there.state;
  await ignoreRace(
    journal.advance(there.key, there.version, { ...state, until: toTombstone(there).begun + RETENTION }),
  );
}

/** Records the name too: there was a worker of this federation here. */
export async function rememberEndedWorker(uid: string, service: string, { journal, now }: Store): Promise<void> {
  await ignoreRace(journal.begin(endedWorkerKey(uid, service), { until: now() + RETENTION }));
}

/** The worker exists again. */
export async function forgetEndedWorker(uid: string, service: string, { journal }: Store): Promise<void> {
  const there = await journal.read(endedWorkerKey(uid, service));
  if (there) await ignoreRace(journal.finish(there.key, there.version));
}

export async function readTombstone(keyId: string, { journal }: Store): Promise<Tombstone | undefined> {
  const entry = await journal.read(tombstoneKey(keyId));
  return entry && toTombstone(entry);
}

/** Throws `federation-gone` if the worker with this key was ended. */
export async function rejectEnded(keyId: string, store: Store): Promise<void> {
  const tombstone = await readTombstone(keyId, store);
  if (tombstone) throw workerGone(tombstone.service);
}

/** Whether there was a worker of this federation with this name. */
export async function wasEnded(uid: string, service: string, { journal }: Store): Promise<boolean> {
  return (await journal.read(endedWorkerKey(uid, service))) !== undefined;
}

export const workerGone = (service: string) =>
  new FederationError('federation-gone', `"${service}" was deleted here: add it to the federation again to restore it`);

/** Tombstones that were begun before the given time and are not carried out yet. */
export async function* openTombstones(
  begunBefore: number,
  { journal }: Store,
): AsyncGenerator<{ keyId: string; service: string; ending: Ending }> {
  for await (const entry of listEntries(TOMBSTONES, journal)) {
    const { service, ending, begun } = toTombstone(entry);
    if (ending !== null && begun < begunBefore) yield { keyId: entry.key.slice(TOMBSTONES.length), service, ending };
  }
}

/** Deletes tombstones whose retention is over. Returns how many. */
export async function expireTombstones({ journal, now }: Store): Promise<number> {
  let forgotten = 0;
  for (const prefix of [TOMBSTONES, ENDED_WORKERS, EXPECTED_KEYS]) {
    for await (const { key, version, state } of listEntries(prefix, journal)) {
      const { until, ending } = state as unknown as Pick<Tombstone, 'until' | 'ending'>;
      if (until > now() || (ending ?? null) !== null) continue;
      await ignoreRace(journal.finish(key, version));
      forgotten++;
    }
  }
  return forgotten;
}

// Only this module writes these keys.
const toTombstone = ({ state }: JournalEntry) => state as unknown as Tombstone;

async function* listEntries(prefix: string, journal: Journal): AsyncGenerator<JournalEntry> {
  let page = await journal.list(prefix);
  for (;;) {
    yield* page.items;
    if (page.next === undefined) return;
    page = await journal.list(prefix, page.next);
  }
}

async function ignoreRace(work: Promise<unknown>): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!isRace(error)) throw error;
  }
}

/**
 * How long a key is registered, and how long the tombstone of a key without a worker is kept. A late create arrives within
 * seconds, and its access token is valid for an hour at most. A smaller value may miss a late create; a larger value keeps
 * more entries in the journal.
 */
const STRAY_RETENTION = 3_600_000;
