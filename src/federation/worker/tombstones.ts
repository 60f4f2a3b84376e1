import { FederationError } from '../../peers/index.ts';
import { isRace, type Journal, type JournalEntry } from '../../ports/index.ts';
import { type Services, ServicesError } from '../../services/index.ts';

/**
 * Says that the worker of a key was ended and is not made again, whatever arrives later. By the id of the key, since every
 * addition of a member has a new one. It is written before anything else, so that it also says what is to be finished.
 */
interface Tombstone {
  readonly service: string;
  readonly reason: 'ended-by-coordinator' | 'removed-by-owner' | 'taken-over';
  readonly begun: number;
  readonly until: number;
  /** How the worker ends; null once it has, or when there was none. */
  readonly ending: Ending | null;
  /** Nothing here has had this key. */
  readonly stray?: boolean;
}

export type Ending = 'undo' | 'detach';

type Store = Pick<Services, 'journal' | 'now'>;

/**
 * How long a create that is still on its way is refused, and how long the coordinator learns that its worker has gone.
 * Shorter: a coordinator that was down for a week-end makes the worker again. Longer: the journal grows.
 */
const RETENTION = 7 * 24 * 60 * 60_000;

const TOMBSTONES = 'tombstone/';
/** Finds them by what a signed request says of itself, which is not the key. */
const ENDED_WORKERS = 'ended/';

const tombstoneKey = (keyId: string) => `${TOMBSTONES}${keyId}`;
const endedWorkerKey = (uid: string, service: string) => `${ENDED_WORKERS}${uid}/${service}`;

type NewTombstone = Pick<Tombstone, 'service' | 'reason' | 'stray'> & { readonly ending: Ending };

/** Leaves the mark, or says of one that is there what is to be finished now. */
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

/** What was begun is finished. */
export async function closeTombstone(keyId: string, { journal }: Store): Promise<void> {
  const there = await journal.read(tombstoneKey(keyId));
  if (!there || there.state['ending'] === null) return;
  await ignoreRace(journal.advance(there.key, there.version, { ...there.state, ending: null }));
}

/** Something here has had the key after all: it was just being made. */
export async function confirmTombstone(keyId: string, { journal }: Store): Promise<void> {
  const there = await journal.read(tombstoneKey(keyId));
  if (!there?.state['stray']) return;
  const { stray: _, ...state } = there.state;
  await ignoreRace(
    journal.advance(there.key, there.version, { ...state, until: toTombstone(there).begun + RETENTION }),
  );
}

/** Remembers the name as well: there was a worker of this federation here. */
export async function rememberEndedWorker(uid: string, service: string, { journal, now }: Store): Promise<void> {
  await ignoreRace(journal.begin(endedWorkerKey(uid, service), { until: now() + RETENTION }));
}

/** There is one again. */
export async function forgetEndedWorker(uid: string, service: string, { journal }: Store): Promise<void> {
  const there = await journal.read(endedWorkerKey(uid, service));
  if (there) await ignoreRace(journal.finish(there.key, there.version));
}

export async function readTombstone(keyId: string, { journal }: Store): Promise<Tombstone | undefined> {
  const entry = await journal.read(tombstoneKey(keyId));
  return entry && toTombstone(entry);
}

/** Throws `federation-gone` when the worker of this key has been ended. */
export async function rejectEnded(keyId: string, store: Store): Promise<void> {
  const tombstone = await readTombstone(keyId, store);
  if (tombstone) throw workerGone(tombstone.service);
}

/** Was there a worker of this federation under this name? */
export async function wasEnded(uid: string, service: string, { journal }: Store): Promise<boolean> {
  return (await journal.read(endedWorkerKey(uid, service))) !== undefined;
}

export const workerGone = (service: string) =>
  new FederationError('federation-gone', `"${service}" was ended here: add it to the federation again to have it back`);

/** Those whose work was begun before and is not finished. */
export async function* openTombstones(
  begunBefore: number,
  { journal }: Store,
): AsyncGenerator<{ keyId: string; service: string; ending: Ending }> {
  for await (const entry of listEntries(TOMBSTONES, journal)) {
    const { service, ending, begun } = toTombstone(entry);
    if (ending !== null && begun < begunBefore) yield { keyId: entry.key.slice(TOMBSTONES.length), service, ending };
  }
}

/** Forgets those that have been kept for long enough. Gives how many. */
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

// Nobody else writes under these keys.
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
 * Marks of keys that open nothing here. An undo may overtake its create, so they have to be left; but whoever makes up a key
 * can leave one, without being anybody here.
 */

/**
 * How long such a mark stays. A create that is still on its way arrives within seconds, and the access token that it brings
 * is good for an hour at most. Shorter: less than that. Longer: more room for what strangers leave.
 */
const STRAY_RETENTION = 3_600_000;

/** Far more than creates that fail within an hour; less than what a journal notices. */
const MOST_STRAY = 1_000;

/** How often they are counted; in between, this manager adds what it leaves itself. */
const COUNTED_EVERY = 60_000;

interface Counted {
  readonly at: number;
  readonly count: Promise<number>;
  /** By this manager since then. */
  added: number;
}

const counted = new WeakMap<Journal, Counted>();

/**
 * Makes room for one more, or throws. None is given up for it: a mark that was promised is kept, so that a create which
 * arrives after its undo is refused, whoever else leaves marks. An undo that is refused is not done, and comes again.
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
  throw new ServicesError(
    'contended',
    'too many keys that open nothing here were ended within an hour: try again later',
  );
}

async function countStray(marks: AsyncIterable<JournalEntry>): Promise<number> {
  let count = 0;
  for await (const { state } of marks) if (state['stray'] === true) count++;
  return count;
}
