import { setTimeout as pause } from 'node:timers/promises';
import type { Cursor } from '../../../lib/version.ts';
import type { JobKey } from '../../../model/job/index.ts';
import { cursorExpired } from '../../../ports/index.ts';
import type { Listener } from '../client/informer.ts';
import { isNewer, type KubeJob, type Stored } from '../client/kinds.ts';
import { changeCursor, JobIndex, readChangeCursor } from './job-index.ts';
import { type JobEntry, readJob } from './job-object.ts';

/** Removed objects that are remembered. An answer that is older than so many removals is not awaited any more. */
const REMEMBERED = 10_000;

/** Of a long list: what it says is read at once, and the rest, with the event, let go. */
interface ReadJob extends KubeJob {
  readonly entry?: JobEntry | undefined;
}

interface CacheEvents {
  /** Something may have changed. */
  readonly changed: () => void;
  readonly report: (problem: unknown) => void;
  /** A job is gone, whoever removed it. */
  readonly gone: (entry: JobEntry) => void;
}

/**
 * All jobs, from lists and watches and from the answers to our own writes, in whatever order these arrive: the newer
 * version stays, and what was removed here does not come back with an event from before.
 */
export class JobCache implements Listener<ReadJob> {
  readonly index = new JobIndex();
  readonly log = new ChangeLog();
  readonly atHand = new RecentRecords();
  readonly #entries = new Map<string, JobEntry>();
  readonly #byKey = new Map<string, JobEntry>();
  /** What of each record the watch has told, by uid; of hidden ones `undefined`. */
  readonly #told = new Map<string, string | undefined>();
  /** Uids of objects that are gone, the oldest first: an answer that was long on its way must not bring one back. */
  readonly #removed = new Set<string>();
  readonly #events: CacheEvents;
  /** Those of a list, which are put into their orders all at once. */
  #batch: JobEntry[] | undefined;
  /** The newest version that we know of by ourselves. */
  #newest = '0';
  /** Told of every entry that is new. */
  readonly onEntry = new Set<(entry: JobEntry) => void>();

  readonly slim = (object: Stored<ReadJob>): Stored<ReadJob> => {
    const { name, namespace = '', uid, resourceVersion } = object.metadata;
    const metadata = { name, namespace, uid, resourceVersion };
    return { metadata, spec: { template: { spec: {} } }, entry: this.#read(object) };
  };

  constructor(events: CacheEvents) {
    this.#events = events;
  }

  /** The newest version that is known here: the watch will come to it. */
  get newest(): string {
    return this.#newest;
  }

  find({ service, id }: JobKey): JobEntry | undefined {
    return this.#byKey.get(`${service}/${id}`);
  }

  entries(): Iterable<JobEntry> {
    return this.#entries.values();
  }

  /** By uid. */
  at(uid: string): JobEntry | undefined {
    return this.#entries.get(uid);
  }

  /** Gives what is known now: this object, or a newer one, or none when it has been removed. */
  put(object: Stored<ReadJob>, read?: JobEntry): JobEntry | undefined {
    const { uid, resourceVersion } = object.metadata;
    const known = this.#entries.get(uid);
    if (this.#removed.has(uid)) return undefined;
    if (known && !isNewer(resourceVersion, known.resourceVersion)) return known;
    const entry = read ?? object.entry ?? readJob(object);
    if (!object.entry) this.atHand.put(object);
    if (isNewer(resourceVersion, this.#newest)) this.#newest = resourceVersion;
    this.#keep(entry, known);
    return entry;
  }

  /** The server has it no longer. */
  drop({ uid }: Pick<JobEntry, 'uid'>): void {
    this.#removed.add(uid);
    if (this.#removed.size > REMEMBERED) {
      const [oldest] = this.#removed;
      if (oldest !== undefined) this.#removed.delete(oldest);
    }
    this.atHand.delete(uid);
    const entry = this.#entries.get(uid);
    if (!entry) return;
    this.#entries.delete(uid);
    this.#unlist(entry);
    this.#events.gone(entry);
    this.#events.changed();
  }

  listed(objects: readonly Stored<ReadJob>[], resourceVersion: string): void {
    const there = new Set(objects.map(({ metadata }) => metadata.uid));
    for (const entry of this.#entries.values()) {
      // What we have written since that version cannot be in the list.
      if (!there.has(entry.uid) && !isNewer(entry.resourceVersion, resourceVersion)) this.drop(entry);
    }
    this.#told.clear();
    this.#batch = [];
    for (const object of objects) {
      if (!object.entry) continue;
      this.put(object);
      this.#told.set(object.metadata.uid, toTell(object.entry));
    }
    const known = this.#batch.filter((entry) => this.#entries.get(entry.uid) === entry);
    this.#batch = undefined;
    this.index.add(known);
    this.log.restart(resourceVersion);
    this.#events.changed();
  }

  changed(object: Stored<ReadJob>): void {
    const entry = this.#read(object);
    if (entry) {
      const { uid } = entry;
      // One that was hidden from the first is nothing that anybody was told of.
      const before = this.#told.get(uid);
      if (before !== toTell(entry)) this.log.note({ service: entry.service, id: entry.id }, entry.resourceVersion);
      this.#told.set(uid, toTell(entry));
      this.put(object, entry);
    }
    this.#reach(object);
  }

  deleted(object: Stored<ReadJob>): void {
    const { uid, resourceVersion } = object.metadata;
    const entry = this.#read(object);
    if (entry?.record) this.log.note({ service: entry.service, id: entry.id }, resourceVersion);
    this.#told.delete(uid);
    this.drop({ uid });
    this.#reach(object);
  }

  troubled(error: unknown): void {
    this.#events.report(error);
  }

  #reach({ metadata }: Stored<ReadJob>): void {
    this.log.reach(metadata.resourceVersion);
    this.#events.changed();
  }

  /** One that cannot be read is nobody's job, and keeps no other from being one. */
  #read(object: Stored<ReadJob>): JobEntry | undefined {
    try {
      return readJob(object);
    } catch (error) {
      this.#events.report(error);
      return undefined;
    }
  }

  #keep(entry: JobEntry, before: JobEntry | undefined): void {
    // Of the same name and another uid: it is gone, and only the watch has not said so yet.
    const same = this.find(entry);
    if (same && same.uid !== entry.uid) this.drop(same);
    if (before) this.#unlist(before);
    this.#entries.set(entry.uid, entry);
    this.#byKey.set(`${entry.service}/${entry.id}`, entry);
    if (this.#batch) this.#batch.push(entry);
    else this.index.add([entry]);
    for (const listener of this.onEntry) listener(entry);
    this.#events.changed();
  }

  #unlist(entry: JobEntry): void {
    this.#byKey.delete(`${entry.service}/${entry.id}`);
    this.index.delete(entry);
  }
}

/** What of an entry is news: its record, and whether that may start, which Kueue writes without touching the record. */
const toTell = ({ record, suspended }: JobEntry) => record && `${record.version} ${suspended}`;

/**
 * Changes that are remembered. Fewer: whoever follows them and was away for a moment has to list all jobs again. More:
 * memory, some 100 bytes each.
 */
const REMEMBERED_CHANGES = 20_000;

interface Change {
  readonly resourceVersion: string;
  readonly key: JobKey;
}

interface ChangedKeys {
  readonly keys: readonly JobKey[];
  readonly cursor: Cursor;
}

/**
 * What changed, in the order of the watch. Every manager is told the same in the same order, so that a cursor is good at
 * each of them; only the watch counts here, because what we have just written may be ahead of what others wrote before.
 */
export class ChangeLog {
  readonly #remembered: number;
  #changes: Change[] = [];
  /** Where each job changed last. */
  readonly #last = new Map<string, string>();
  /** Of what came before this version, not everything is known. */
  #floor = '0';
  /** Up to here everything has been told. */
  #reached = '0';
  #waiting: { readonly resourceVersion: string; readonly resolve: () => void }[] = [];

  constructor(remembered = REMEMBERED_CHANGES) {
    this.#remembered = remembered;
  }

  /** Everything was listed at this version: what happened since the last time is not known. */
  restart(resourceVersion: string): void {
    this.#changes = [];
    this.#last.clear();
    this.#floor = resourceVersion;
    this.reach(resourceVersion);
  }

  /** The watch has come to this version. */
  reach(resourceVersion: string): void {
    if (!isNewer(resourceVersion, this.#reached)) return;
    this.#reached = resourceVersion;
    const still = this.#waiting.filter((each) => isNewer(each.resourceVersion, resourceVersion));
    const done = this.#waiting.filter((each) => !still.includes(each));
    this.#waiting = still;
    for (const { resolve } of done) resolve();
  }

  note(key: JobKey, resourceVersion: string): void {
    this.#changes.push({ resourceVersion, key });
    this.#last.set(textOf(key), resourceVersion);
    if (this.#changes.length > this.#remembered) this.#forget(Math.ceil(this.#remembered / 2));
  }

  /** Without a cursor, the cursor of now. */
  read(since: Cursor | undefined, service: string | undefined, limit: number): ChangedKeys {
    const reached = this.#reached;
    if (since === undefined) return { keys: [], cursor: changeCursor(reached) };
    const after = readChangeCursor(since);
    if (isNewer(this.#floor, after)) throw cursorExpired();
    // Another manager has heard more than this one, which will in a moment.
    if (!isNewer(reached, after)) return { keys: [], cursor: since };

    const keys: JobKey[] = [];
    for (let index = this.#above(after); index < this.#changes.length; index++) {
      const change = this.#changes[index];
      if (!change || !this.#isLast(change)) continue;
      if (service !== undefined && change.key.service !== service) continue;
      keys.push(change.key);
      if (keys.length === limit) return { keys, cursor: changeCursor(change.resourceVersion) };
    }
    return { keys, cursor: changeCursor(reached) };
  }

  /** Resolves when the watch has come to this version; false when it has not after that time. */
  async reached(resourceVersion: string, milliseconds: number): Promise<boolean> {
    if (!isNewer(resourceVersion, this.#reached)) return true;
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiter = { resourceVersion, resolve };
    this.#waiting.push(waiter);
    const done = new AbortController();
    const late = pause(milliseconds, false, { signal: done.signal, ref: false }).catch(() => false);
    try {
      return await Promise.race([promise.then(() => true), late]);
    } finally {
      done.abort();
      this.#waiting = this.#waiting.filter((each) => each !== waiter);
    }
  }

  /** The first change that is newer. */
  #above(version: string): number {
    let low = 0;
    let high = this.#changes.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (isNewer(this.#changes[middle]?.resourceVersion ?? '', version)) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  #isLast({ key, resourceVersion }: Change): boolean {
    return this.#last.get(textOf(key)) === resourceVersion;
  }

  #forget(count: number): void {
    for (const change of this.#changes.splice(0, count)) {
      this.#floor = change.resourceVersion;
      if (this.#isLast(change)) this.#last.delete(textOf(change.key));
    }
  }
}

const textOf = ({ service, id }: JobKey) => `${service}/${id}`;

/** What may be held: objects, and the length of their annotations, most of which is events. */
interface Room {
  readonly objects: number;
  readonly characters: number;
}

/**
 * Each job is changed some five times within minutes. More: memory. Fewer: of more than so many that are under way at
 * once, each is read from the server before it is changed.
 */
const ROOM: Room = { objects: 2_000, characters: 16_000_000 };

/** The objects that were seen last, whole: what is changed has to be sent as a whole. */
export class RecentRecords {
  readonly #objects = new Map<string, { readonly object: Stored<KubeJob>; readonly characters: number }>();
  readonly #room: Room;
  #characters = 0;

  constructor(room: Room = ROOM) {
    this.#room = room;
  }

  get(uid: string): Stored<KubeJob> | undefined {
    return this.#objects.get(uid)?.object;
  }

  put(object: Stored<KubeJob>): void {
    const { uid, annotations = {} } = object.metadata;
    this.delete(uid);
    const characters = Object.values(annotations).reduce((sum, text) => sum + text.length, 0);
    this.#objects.set(uid, { object: withoutManagedFields(object), characters });
    this.#characters += characters;
    for (const oldest of this.#objects.keys()) {
      if (this.#objects.size <= this.#room.objects && this.#characters <= this.#room.characters) return;
      this.delete(oldest);
    }
  }

  delete(uid: string): void {
    this.#characters -= this.#objects.get(uid)?.characters ?? 0;
    this.#objects.delete(uid);
  }
}

/** Who wrote which field: as long as the rest, and kept by the server when it is left out. */
function withoutManagedFields(object: Stored<KubeJob>): Stored<KubeJob> {
  const { managedFields: _, ...metadata } = object.metadata as Stored<KubeJob>['metadata'] & {
    managedFields?: unknown;
  };
  return { ...object, metadata };
}
