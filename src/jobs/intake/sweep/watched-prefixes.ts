import { hash } from 'node:crypto';
import type { Version } from '../../../lib/version.ts';
import type { Service } from '../../../model/service/index.ts';
import { type Journal, type JournalEntry, type StoredObject, StoreError } from '../../../ports/index.ts';
import { storageClaim } from '../../../services/index.ts';

/** What is remembered of a prefix, with its place in the journal. */
export interface WatchedEntry {
  readonly key: string;
  readonly version: Version;
  readonly service: { readonly uid: string; readonly name: string };
  readonly watched: Watched;
}

const JOURNAL_PREFIX = 'sweep/';

/**
 * Which prefixes the services wait for, and how far each has been swept: an entry of the journal for each. It is kept apart
 * from the jobs, so that removing those runs nothing again.
 */
export class WatchedPrefixes {
  readonly #journal: Journal;

  constructor(journal: Journal) {
    this.#journal = journal;
  }

  /**
   * Makes the entries what the service says: a prefix that is new begins now, one that is no longer waited for is
   * forgotten, so that it begins anew if it ever comes back.
   */
  async reconcile(service: Service, now: number, known?: readonly WatchedEntry[]): Promise<WatchedEntry[]> {
    const { uid, definition } = service;
    const wanted = new Map(
      storageClaim(service).subscriptions.map(({ bucket, prefix }) => [
        entryKey(uid, bucket, prefix),
        { bucket, prefix },
      ]),
    );
    const entries = known ?? (await this.#list(`${JOURNAL_PREFIX}${uid}/`));
    await Promise.all(entries.filter(({ key }) => !wanted.has(key)).map((entry) => this.forget(entry)));
    const kept = entries.filter(({ key }) => wanted.delete(key));
    const begun = [...wanted].map(([key, { bucket, prefix }]) =>
      this.#begin(key, { uid, name: definition.name }, newWatch(bucket, prefix, now)),
    );
    return [...kept, ...(await Promise.all(begun)).filter((entry) => entry !== undefined)];
  }

  /** Of all services, those that are gone included. */
  all(): Promise<WatchedEntry[]> {
    return this.#list(JOURNAL_PREFIX);
  }

  /** Nothing happens when another manager was first: it has seen the same objects. */
  async move(entry: WatchedEntry, watched: Watched): Promise<WatchedEntry | undefined> {
    const version = await unlessOvertaken(
      this.#journal.advance(entry.key, entry.version, toState(entry.service, watched)),
    );
    return version && { ...entry, version, watched };
  }

  async forget({ key, version }: WatchedEntry): Promise<void> {
    await unlessOvertaken(this.#journal.finish(key, version));
  }

  async #begin(key: string, service: WatchedEntry['service'], watched: Watched): Promise<WatchedEntry | undefined> {
    const entry = await unlessOvertaken(this.#journal.begin(key, toState(service, watched)));
    return entry && { key, version: entry.version, service, watched };
  }

  async #list(prefix: string): Promise<WatchedEntry[]> {
    const entries: WatchedEntry[] = [];
    let page = await this.#journal.list(prefix);
    for (;;) {
      entries.push(...page.items.map(toEntry));
      if (page.next === undefined) return entries;
      page = await this.#journal.list(prefix, page.next);
    }
  }
}

/** Short, whatever the path is. */
const entryKey = (uid: string, bucket: string, prefix: string) =>
  `${JOURNAL_PREFIX}${uid}/${hash('sha256', JSON.stringify([bucket, prefix]), 'hex').slice(0, 32)}`;

const toState = ({ uid, name }: WatchedEntry['service'], watched: Watched) => ({
  uid,
  name,
  ...watched,
  next: { ...watched.next },
});

function toEntry({ key, version, state }: JournalEntry): WatchedEntry {
  // Nobody else writes into this room.
  const { uid, name, ...watched } = state as unknown as WatchedEntry['service'] & Watched;
  return { key, version, service: { uid, name }, watched };
}

async function unlessOvertaken<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof StoreError && ['conflict', 'absent', 'exists'].includes(error.code)) return undefined;
    throw error;
  }
}

/** What the sweep remembers of one prefix that a service waits for. All times are by the store's clock. */
export interface Watched {
  readonly bucket: string;
  readonly prefix: string;
  /** When the subscription began: what is older is none of its business. */
  readonly since: number;
  /** Objects up to here have been looked at. */
  readonly watermark: number;
  /** Marks of jobs whose objects are older may be forgotten. */
  readonly forgettable: number;
  /** What may be forgotten next: everything before `before`, which the watermark had passed at `at`. */
  readonly next: { readonly before: number; readonly at: number };
}

/**
 * How old an object must be before it is looked at. Shorter: the sweep runs what its event is still on the way for, which
 * the job id makes harmless, and may pass by an object that the store lists late. Longer: a lost event costs more time.
 */
export const SETTLING_MS = 2 * 60_000;

/**
 * How long the mark of a removed job stays after the watermark has passed its object. Shorter: a store that delivers its
 * queue late runs a job again. Longer: more marks.
 */
const TOMBSTONE_LIFETIME = 60 * 60_000;

/**
 * How far a watermark may lag behind passes that found nothing. Shorter: a write for every prefix of every service in
 * every pass. Longer: after a restart more objects are looked at again, for nothing.
 */
const LAG = 10 * 60_000;

/** A subscription that is made, changed or restored begins now. */
export function newWatch(bucket: string, prefix: string, now: number): Watched {
  return { bucket, prefix, since: now, watermark: now, forgettable: 0, next: { before: now, at: now } };
}

/** Which objects a pass that began then looks at: later than the first, not later than the second. */
export function sweepSpan({ since, watermark }: Watched, begun: number): { after: number; upTo: number } {
  return { after: Math.max(since, watermark), upTo: begun - SETTLING_MS };
}

/** Is the object to be looked at? An empty one that is called like a folder is a folder. */
export function isDue(
  { key, bytes, modifiedAt }: StoredObject,
  { after, upTo }: { after: number; upTo: number },
): boolean {
  return modifiedAt > after && modifiedAt <= upTo && !(bytes === 0 && key.endsWith('/'));
}

/**
 * What is remembered after a complete pass, if that is worth a write. The watermark moves to the beginning of the pass, less
 * the time that objects are given to settle: what is written while it lists is looked at by the next one.
 *
 * An hour must have gone by since the watermark passed an object, and not only an hour's worth of objects: after a long
 * silence it moves by days in one pass, and the store may yet deliver what it kept meanwhile.
 */
export function afterPass(watched: Watched, begun: number, found: number): Watched | undefined {
  const watermark = Math.max(watched.watermark, begun - SETTLING_MS);
  const isOver = begun - watched.next.at >= TOMBSTONE_LIFETIME;
  if (found === 0 && !isOver && watermark - watched.watermark < LAG) return undefined;
  if (!isOver) return { ...watched, watermark };
  return { ...watched, watermark, forgettable: watched.next.before, next: { before: watermark, at: begun } };
}

/** Marks of a service are of all its prefixes: the one that is farthest behind decides. */
export function forgettableBefore(all: readonly Watched[]): number {
  return Math.min(...all.map(({ forgettable }) => forgettable));
}
