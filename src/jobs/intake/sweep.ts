import { hash } from 'node:crypto';
import { setTimeout as pause, setImmediate as turn } from 'node:timers/promises';
import type { Cursor, Version } from '../../lib/version.ts';
import type { StorageEvent } from '../../model/job/index.ts';
import type { Service } from '../../model/service/index.ts';
import { type Journal, type JournalEntry, type StoredObject, StoreError } from '../../ports/index.ts';
import { toStorageClaim } from '../../services/index.ts';
import type { Jobs } from '../jobs.ts';
import { acceptEvent } from './storage-events.ts';

interface SweepOptions {
  readonly jobs: SweepDeps['jobs'];
  readonly journal: Journal;
  readonly report: (problem: unknown) => void;
  /** The clock of the store, in milliseconds. */
  readonly storeTime: () => number | Promise<number>;
  /** Milliseconds between two passes, with jitter. */
  readonly interval?: number;
}

const INTERVAL = 60_000;

/** Services that are swept concurrently. More of them list a distant store faster, and load it more. */
const AT_ONCE = 4;

/** Rest after a pass, as a multiple of its duration: passes take at most a tenth of the time, however large the buckets are. */
const REST = 9;

/** Pause before a broken watch is opened again. */
const WATCH_AGAIN_MS = 1_000;

/**
 * Finds objects whose events were lost (docs/jobs.md#no-event-is-lost-none-runs-twice). For each prefix that is an input of
 * a service it stores a watermark. A job that it creates has the same id as the job of the event, so only one of them runs.
 * Any number of managers may sweep at once.
 *
 * The watermark of a prefix starts when a service with this input is first seen, which is when the service store reports it:
 * on this manager before the create request is answered, on another one within the delay of the watch. If the manager dies
 * within these milliseconds, the watermark starts at its next start.
 *
 * Not for stores whose events carry no time: the ids of their jobs differ from those of swept objects.
 */
export class Sweep {
  readonly #options: Required<SweepOptions>;
  readonly #prefixes: WatchedPrefixes;
  readonly #stopping = new AbortController();
  #woken = Promise.withResolvers<void>();
  #running: Promise<unknown> | undefined;

  constructor(options: SweepOptions) {
    this.#options = { interval: INTERVAL, ...options };
    this.#prefixes = new WatchedPrefixes(options.journal);
  }

  start(): void {
    this.#running ??= Promise.all([this.#follow(), this.#repeat()]);
  }

  /** Waits for work in progress. An interrupted pass changes no watermark. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#woken.resolve();
    await this.#running;
  }

  /** One pass over all services. */
  async pass(): Promise<void> {
    const begun = await this.#options.storeTime();
    const entries = Map.groupBy(await this.#prefixes.all(), ({ service }) => service.name);
    // A list may lag. Services that it omits still have their journal entries.
    const names = new Set([...(await this.#names()), ...entries.keys()]).values();
    const work = async () => {
      for (const name of names) await this.#sweep(name, entries.get(name) ?? [], begun);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
  }

  async #sweep(name: string, entries: readonly WatchedEntry[], begun: number): Promise<void> {
    const { signal } = this.#stopping;
    if (signal.aborted) return;
    try {
      const service = (await this.#options.jobs.services.get(name))?.service;
      const isOwn = (entry: WatchedEntry) => entry.service.uid === service?.uid;
      await Promise.all(entries.filter((entry) => !isOwn(entry)).map((entry) => this.#prefixes.forget(entry)));
      const deps = { ...this.#options, prefixes: this.#prefixes, signal, report: (e: unknown) => this.#report(e) };
      if (service) await sweepService(service, entries.filter(isOwn), begun, deps);
    } catch (error) {
      this.#report(error);
    }
  }

  async #names(): Promise<string[]> {
    const { services } = this.#options.jobs;
    const names: string[] = [];
    let page = await services.list({});
    for (;;) {
      names.push(...page.items.map(({ service }) => service.definition.name));
      if (page.next === undefined) return names;
      page = await services.list({ cursor: page.next });
    }
  }

  async #repeat(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      this.#woken = Promise.withResolvers();
      const begun = performance.now();
      await this.pass().catch((error: unknown) => this.#report(error));
      const took = performance.now() - begun;
      // Jitter, so that managers do not sweep at the same moment.
      const rest = Math.max(this.#options.interval * (0.9 + Math.random() / 5), REST * took);
      await Promise.race([this.#woken.promise, this.#pause(rest)]);
    }
  }

  /** Updates the watched prefixes as soon as a service changes. */
  async #follow(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        for await (const change of this.#options.jobs.services.watch(signal)) {
          if (change.kind === 'changed') await this.#reconcile(change.name);
          // The next pass finds what was missed.
          else if (change.kind === 'resync') this.#woken.resolve();
        }
      } catch (error) {
        this.#report(error);
      }
      await this.#pause(WATCH_AGAIN_MS);
      this.#woken.resolve();
    }
  }

  async #reconcile(name: string): Promise<void> {
    try {
      const now = await this.#options.storeTime();
      const record = await this.#options.jobs.services.get(name);
      if (record) await this.#prefixes.reconcile(record.service, now);
    } catch (error) {
      this.#report(error);
    }
  }

  #report(error: unknown): void {
    if (!this.#stopping.signal.aborted) this.#options.report(error);
  }

  async #pause(ms: number): Promise<void> {
    await pause(ms, undefined, { signal: this.#stopping.signal, ref: false }).catch(() => undefined);
  }
}

interface SweepDeps {
  readonly jobs: Pick<Jobs, 'store' | 'scheduler' | 'now' | 'place' | 'services' | 'objects' | 'storeAccount'>;
  readonly prefixes: WatchedPrefixes;
  /** Called with errors. The next pass starts at the same watermark again. */
  readonly report: (problem: unknown) => void;
  readonly signal: AbortSignal;
}

/** Objects per listing, and at most accepted concurrently. */
const PAGE = 250;

/** Accepts jobs for the objects under the prefixes of a service that have none yet. `begun` is when the pass began. */
async function sweepService(
  service: Service,
  known: readonly WatchedEntry[],
  begun: number,
  deps: SweepDeps,
): Promise<void> {
  const { prefixes, jobs } = deps;
  const before = await prefixes.reconcile(service, begun, known);
  const after: WatchedEntry[] = [];
  for (const entry of before) after.push(await sweepPrefix(service, entry, begun, deps));
  const isForgettable = after.some(({ watched }, index) => watched.forgettable !== before[index]?.watched.forgettable);
  if (!isForgettable) return;
  await jobs.store.dropTombstones(service.uid, forgettableBefore(after.map(({ watched }) => watched)));
}

/** Resolves to the new entry. Its watermark moves only if all due objects were accepted. */
async function sweepPrefix(
  service: Service,
  entry: WatchedEntry,
  begun: number,
  deps: SweepDeps,
): Promise<WatchedEntry> {
  try {
    const found = await acceptDue(service, entry, begun, deps);
    const moved = afterPass(entry.watched, begun, found);
    return (moved && (await deps.prefixes.move(entry, moved))) ?? entry;
  } catch (error) {
    const isGone = !deps.signal.aborted && (await hasNoBucket(entry.watched.bucket, deps));
    // A user may have removed the bucket. That is no error: a bucket of that name may be created again.
    if (!isGone) deps.report(error);
    return entry;
  }
}

async function acceptDue(
  service: Service,
  { watched }: WatchedEntry,
  begun: number,
  { jobs, signal }: SweepDeps,
): Promise<number> {
  const { bucket, prefix } = watched;
  const span = sweepSpan(watched, begun);
  if (span.upTo <= span.after) return 0;
  let found = 0;
  let cursor: Cursor | undefined;
  do {
    const page = await jobs.objects.objects(bucket, { prefix, limit: PAGE, ...(cursor !== undefined && { cursor }) });
    const due = page.items.filter((object) => isDue(object, span)).map((object) => sweptEvent(bucket, object));
    await Promise.all(due.map(({ event, json }) => acceptEvent(event, json, service, jobs)));
    found += due.length;
    cursor = page.next;
    // A store in this process answers at once, and a large bucket must not delay other work.
    await turn();
    signal.throwIfAborted();
  } while (cursor !== undefined);
  return found;
}

async function hasNoBucket(bucket: string, { jobs }: SweepDeps): Promise<boolean> {
  try {
    return (await jobs.objects.bucket(bucket)) === undefined;
  } catch {
    return false;
  }
}

interface SweptEvent {
  readonly event: StorageEvent;
  readonly json: Uint8Array;
}

/**
 * The event that the store should have sent, so that the script sees the same as from a delivered event. Who wrote the
 * object is not known any more.
 */
export function sweptEvent(bucket: string, { key, bytes, eTag, modifiedAt }: StoredObject): SweptEvent {
  const name = 's3:ObjectCreated:Put';
  const record = {
    eventVersion: '2.0',
    eventSource: 'minio:s3',
    awsRegion: '',
    eventTime: new Date(modifiedAt).toISOString(),
    eventName: name,
    userIdentity: { principalId: '' },
    requestParameters: { principalId: '', region: '', sourceIPAddress: '' },
    responseElements: {},
    s3: {
      s3SchemaVersion: '1.0',
      configurationId: 'Config',
      bucket: { name: bucket, ownerIdentity: { principalId: '' }, arn: `arn:aws:s3:::${bucket}` },
      object: { key: encodeAsQuery(key), size: bytes, eTag, sequencer: toSequencer(modifiedAt) },
    },
    source: { host: '', port: '', userAgent: '' },
  };
  const json = JSON.stringify({ EventName: name, Key: `${bucket}/${key}`, Records: [record] });
  return { event: { bucket, key, eTag, bytes, modifiedAt }, json: Buffer.from(json) };
}

/** Encodes a key as MinIO does in a record: a blank is `+`. */
const encodeAsQuery = (key: string) => encodeURIComponent(key).replaceAll('%20', '+');

/** The modification time in nanoseconds, of which a listing shows the milliseconds. */
const toSequencer = (modifiedAt: number) =>
  (BigInt(modifiedAt) * 1_000_000n).toString(16).toUpperCase().padStart(16, '0');

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
