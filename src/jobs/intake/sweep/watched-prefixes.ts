import { hash } from 'node:crypto';
import type { Version } from '../../../lib/version.ts';
import type { Service } from '../../../model/service/index.ts';
import { type Journal, type JournalEntry, type StoredObject, StoreError } from '../../../ports/index.ts';
import { toStorageClaim } from '../../../services/index.ts';

/** The state of a prefix, with its key and version in the journal. */
export interface WatchedEntry {
  readonly key: string;
  readonly version: Version;
  readonly service: { readonly uid: string; readonly name: string };
  readonly watched: Watched;
}

const JOURNAL_PREFIX = 'sweep/';

/**
 * The prefixes that are inputs of services, and how far each has been swept: one journal entry per prefix. They are stored
 * apart from the jobs, so that removing jobs does not run anything again.
 */
export class WatchedPrefixes {
  readonly #journal: Journal;

  constructor(journal: Journal) {
    this.#journal = journal;
  }

  /**
   * Makes the entries match the inputs of the service: a new prefix starts now, and the entry of a prefix that is no longer
   * an input is removed, so that it starts anew if it ever comes back.
   */
  async reconcile(service: Service, now: number, known?: readonly WatchedEntry[]): Promise<WatchedEntry[]> {
    const { uid, definition } = service;
    const wanted = new Map(
      toStorageClaim(service).subscriptions.map(({ bucket, prefix }) => [
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

  /** The entries of all services, including removed ones. */
  all(): Promise<WatchedEntry[]> {
    return this.#list(JOURNAL_PREFIX);
  }

  /** Does nothing if another manager was first: it has seen the same objects. */
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

/** A hash keeps the key short, however long the path is. */
const entryKey = (uid: string, bucket: string, prefix: string) =>
  `${JOURNAL_PREFIX}${uid}/${hash('sha256', JSON.stringify([bucket, prefix]), 'hex').slice(0, 32)}`;

const toState = ({ uid, name }: WatchedEntry['service'], watched: Watched) => ({
  uid,
  name,
  ...watched,
  next: { ...watched.next },
});

function toEntry({ key, version, state }: JournalEntry): WatchedEntry {
  // Only this class writes entries under this prefix.
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

/** The state of the sweep for one prefix. All times are by the store's clock. */
export interface Watched {
  readonly bucket: string;
  readonly prefix: string;
  /** When the subscription began: older objects are ignored. */
  readonly since: number;
  /** Objects up to this time have been swept. */
  readonly watermark: number;
  /** Tombstones of jobs whose objects are older may be dropped. */
  readonly forgettable: number;
  /** What may be dropped next: everything before `before`, which the watermark had passed at `at`. */
  readonly next: { readonly before: number; readonly at: number };
}

/**
 * How old an object must be before it is swept. With a shorter time the sweep creates jobs whose events are still on their
 * way, which is harmless because they have the same id, and it may miss an object that the store lists late. With a longer
 * one the job of a lost event starts later.
 */
export const SETTLING_MS = 2 * 60_000;

/**
 * How long the tombstone of a removed job stays after the watermark has passed its object. With a shorter time a store that
 * delivers its queue late runs a job again; a longer one keeps more tombstones.
 */
const TOMBSTONE_LIFETIME = 60 * 60_000;

/**
 * How far a watermark may lag behind passes that found nothing. A shorter lag costs a write for every prefix of every service
 * in every pass; with a longer one more objects are listed again after a restart.
 */
const LAG = 10 * 60_000;

/** The state of a subscription that begins now. */
export function newWatch(bucket: string, prefix: string, now: number): Watched {
  return { bucket, prefix, since: now, watermark: now, forgettable: 0, next: { before: now, at: now } };
}

/** The modification times that a pass covers: later than `after`, not later than `upTo`. */
export function sweepSpan({ since, watermark }: Watched, begun: number): { after: number; upTo: number } {
  return { after: Math.max(since, watermark), upTo: begun - SETTLING_MS };
}

/** Whether the pass covers the object. An empty object whose key ends with a slash is a folder marker. */
export function isDue(
  { key, bytes, modifiedAt }: StoredObject,
  { after, upTo }: { after: number; upTo: number },
): boolean {
  return modifiedAt > after && modifiedAt <= upTo && !(bytes === 0 && key.endsWith('/'));
}

/**
 * The state after a complete pass; undefined if it is not worth a write. The watermark moves to the beginning of the pass
 * minus {@link SETTLING_MS}: the next pass covers what is written while this one lists.
 *
 * A tombstone may be dropped an hour after the watermark passed its object, by the clock: after a long outage the watermark
 * moves by days in one pass, and the store may still deliver the events that it kept meanwhile.
 */
export function afterPass(watched: Watched, begun: number, found: number): Watched | undefined {
  const watermark = Math.max(watched.watermark, begun - SETTLING_MS);
  const isOver = begun - watched.next.at >= TOMBSTONE_LIFETIME;
  if (found === 0 && !isOver && watermark - watched.watermark < LAG) return undefined;
  if (!isOver) return { ...watched, watermark };
  return { ...watched, watermark, forgettable: watched.next.before, next: { before: watermark, at: begun } };
}

/** Tombstones belong to a service, not to a prefix: the prefix that is farthest behind decides. */
export function forgettableBefore(all: readonly Watched[]): number {
  return Math.min(...all.map(({ forgettable }) => forgettable));
}
