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
  /** No worker on this cluster had this key. */
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

const tombstoneKey = (keyId: string) => `${TOMBSTONES}${keyId}`;
const endedWorkerKey = (uid: string, service: string) => `${ENDED_WORKERS}${uid}/${service}`;

type NewTombstone = Pick<Tombstone, 'service' | 'reason' | 'stray'> & { readonly ending: Ending };

/** Writes the tombstone, or changes the ending of one that exists. */
export async function writeTombstone(
  keyId: string,
  { service, reason, ending, stray = false }: NewTombstone,
  { journal, now }: Store,
): Promise<void> {
  const begun = now();
  const kept = stray ? { until: begun + STRAY_RETENTION, stray } : { until: begun + RETENTION };
  const fresh = { service, reason, ending, begun, ...kept };
  if (stray && !(await journal.read(tombstoneKey(keyId))))
    await reserveStrayTombstone(() => listEntries(TOMBSTONES, journal), { journal, now });
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
  for (const prefix of [TOMBSTONES, ENDED_WORKERS]) {
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
 * Stray tombstones belong to keys of no worker here. They are needed because a release may arrive before its create. But a
 * caller that invents a key can write one without any account on this cluster.
 */

/**
 * How long a stray tombstone is kept. A late create arrives within seconds, and its access token is valid for an hour at
 * most. A smaller value may miss a late create; a larger value lets strangers occupy more of the journal.
 */
const STRAY_RETENTION = 3_600_000;

/** Far more than the creates that fail within an hour, and few enough for the journal. */
const MOST_STRAY = 1_000;

/** How often stray tombstones are counted. In between, this manager adds those that it writes itself. */
const COUNTED_EVERY = 60_000;

interface Counted {
  readonly at: number;
  readonly count: Promise<number>;
  /** Written by this manager since the count. */
  added: number;
}

const counted = new WeakMap<Journal, Counted>();

/**
 * Reserves space for one more stray tombstone, or throws. No tombstone is dropped for it: a confirmed release must keep
 * rejecting its late create, however many tombstones strangers write. A release that is rejected here has not happened, and
 * the coordinator retries it.
 */
async function reserveStrayTombstone(
  marks: () => AsyncIterable<JournalEntry>,
  { journal, now }: { readonly journal: Journal; readonly now: () => number },
): Promise<void> {
  let last = counted.get(journal);
  if (!last || now() - last.at >= COUNTED_EVERY) {
    last = { at: now(), count: countStray(marks()), added: 0 };
    counted.set(journal, last);
    last.count.catch(() => counted.delete(journal));
  }
  last.added++;
  if ((await last.count) + last.added <= MOST_STRAY) return;
  last.added--;
  throw new ServicesError('contended', 'too many unknown keys were revoked within an hour: try again later');
}

async function countStray(marks: AsyncIterable<JournalEntry>): Promise<number> {
  let count = 0;
  for await (const { state } of marks) if (state['stray'] === true) count++;
  return count;
}
