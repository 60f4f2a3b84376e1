import { hash } from 'node:crypto';
import { type Journal, type JournalEntry, StoreError, type Version } from '../../cluster/index.ts';
import type { Service } from '../../service/index.ts';
import { storageClaim } from '../../storage/index.ts';
import { beginning, type Watched } from './sweep-rules.ts';

/** What is remembered of a prefix, with its place in the journal. */
export interface WatchedEntry {
  readonly key: string;
  readonly version: Version;
  readonly service: { readonly uid: string; readonly name: string };
  readonly watched: Watched;
}

const ROOM = 'sweep/';

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
  async align(service: Service, now: number, known?: readonly WatchedEntry[]): Promise<WatchedEntry[]> {
    const { uid, definition } = service;
    const wanted = new Map(
      storageClaim(service).subscriptions.map(({ bucket, prefix }) => [keyOf(uid, bucket, prefix), { bucket, prefix }]),
    );
    const entries = known ?? (await this.#list(`${ROOM}${uid}/`));
    await Promise.all(entries.filter(({ key }) => !wanted.has(key)).map((entry) => this.forget(entry)));
    const kept = entries.filter(({ key }) => wanted.delete(key));
    const begun = [...wanted].map(([key, { bucket, prefix }]) =>
      this.#begin(key, { uid, name: definition.name }, beginning(bucket, prefix, now)),
    );
    return [...kept, ...(await Promise.all(begun)).filter((entry) => entry !== undefined)];
  }

  /** Of all services, those that are gone included. */
  all(): Promise<WatchedEntry[]> {
    return this.#list(ROOM);
  }

  /** Nothing happens when another manager was first: it has seen the same objects. */
  async move(entry: WatchedEntry, watched: Watched): Promise<WatchedEntry | undefined> {
    const version = await unlessOvertaken(
      this.#journal.advance(entry.key, entry.version, stateOf(entry.service, watched)),
    );
    return version && { ...entry, version, watched };
  }

  async forget({ key, version }: WatchedEntry): Promise<void> {
    await unlessOvertaken(this.#journal.finish(key, version));
  }

  async #begin(key: string, service: WatchedEntry['service'], watched: Watched): Promise<WatchedEntry | undefined> {
    const entry = await unlessOvertaken(this.#journal.begin(key, stateOf(service, watched)));
    return entry && { key, version: entry.version, service, watched };
  }

  async #list(prefix: string): Promise<WatchedEntry[]> {
    const entries: WatchedEntry[] = [];
    let page = await this.#journal.list(prefix);
    for (;;) {
      entries.push(...page.items.map(entryOf));
      if (page.next === undefined) return entries;
      page = await this.#journal.list(prefix, page.next);
    }
  }
}

/** Short, whatever the path is. */
const keyOf = (uid: string, bucket: string, prefix: string) =>
  `${ROOM}${uid}/${hash('sha256', JSON.stringify([bucket, prefix]), 'hex').slice(0, 32)}`;

const stateOf = ({ uid, name }: WatchedEntry['service'], watched: Watched) => ({
  uid,
  name,
  ...watched,
  next: { ...watched.next },
});

function entryOf({ key, version, state }: JournalEntry): WatchedEntry {
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
