import { setTimeout as pause } from 'node:timers/promises';
import type { Cursor } from '../../../lib/version.ts';
import type { JobKey } from '../../../model/job/index.ts';
import { cursorExpired } from '../../../ports/index.ts';
import type { InformerHandler } from '../client/informer.ts';
import { isNewer, type KubeJob, type Stored } from '../client/kinds.ts';
import { changeCursor, JobIndex, readChangeCursor } from './job-index.ts';
import { type JobEntry, readJob } from './job-object.ts';

/**
 * How many removed objects are remembered. With fewer, a delayed response could bring back a removed job; more take memory,
 * some 100 bytes each.
 */
const REMEMBERED = 10_000;

/** A Job of a list: it is parsed at once, and the rest, including the event, is dropped to save memory. */
interface ReadJob extends KubeJob {
  readonly entry?: JobEntry | undefined;
}

interface CacheEvents {
  /** Called when something may have changed. */
  readonly changed: () => void;
  readonly report: (problem: unknown) => void;
  /** Called when a job was removed, by any manager or by Kubernetes. */
  readonly removed: (entry: JobEntry) => void;
}

/**
 * All jobs. It is fed by lists, watches and the responses to the manager's own writes, in any order: the newest version
 * stays, and an older event does not bring back a removed job.
 */
export class JobCache implements InformerHandler<ReadJob> {
  readonly index = new JobIndex();
  readonly log = new ChangeLog();
  readonly recentRecords = new RecentRecords();
  readonly #entries = new Map<string, JobEntry>();
  readonly #byKey = new Map<string, JobEntry>();
  /** The last state of each record that the watch has reported, by uid; `undefined` for tombstones. */
  readonly #reported = new Map<string, string | undefined>();
  /** Uids of removed objects, the oldest first: a delayed response must not bring one back. */
  readonly #removed = new Set<string>();
  readonly #events: CacheEvents;
  /** The entries of a list, which are added to the index together. */
  #batch: JobEntry[] | undefined;
  /** The newest version known here, including the manager's own writes. */
  #newest = '0';
  /** Called for every new or changed entry. */
  readonly onEntry = new Set<(entry: JobEntry) => void>();

  readonly slim = (object: Stored<ReadJob>): Stored<ReadJob> => {
    const { name, namespace = '', uid, resourceVersion } = object.metadata;
    const metadata = { name, namespace, uid, resourceVersion };
    return { metadata, spec: { template: { spec: {} } }, entry: this.#read(object) };
  };

  constructor(events: CacheEvents) {
    this.#events = events;
  }

  /** The newest version known here; the watch will reach it. */
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

  /** Returns the current entry: of this object, of a newer one, or undefined when it has been removed. */
  put(object: Stored<ReadJob>, read?: JobEntry): JobEntry | undefined {
    const { uid, resourceVersion } = object.metadata;
    const known = this.#entries.get(uid);
    if (this.#removed.has(uid)) return undefined;
    if (known && !isNewer(resourceVersion, known.resourceVersion)) return known;
    const entry = read ?? object.entry ?? readJob(object);
    if (!object.entry) this.recentRecords.put(object);
    if (isNewer(resourceVersion, this.#newest)) this.#newest = resourceVersion;
    this.#keep(entry, known);
    return entry;
  }

  /** Call when the server no longer has the object. */
  drop({ uid }: Pick<JobEntry, 'uid'>): void {
    this.#removed.add(uid);
    if (this.#removed.size > REMEMBERED) {
      const [oldest] = this.#removed;
      if (oldest !== undefined) this.#removed.delete(oldest);
    }
    this.recentRecords.delete(uid);
    const entry = this.#entries.get(uid);
    if (!entry) return;
    this.#entries.delete(uid);
    this.#unlist(entry);
    this.#events.removed(entry);
    this.#events.changed();
  }

  onListed(objects: readonly Stored<ReadJob>[], resourceVersion: string): void {
    const there = new Set(objects.map(({ metadata }) => metadata.uid));
    for (const entry of this.#entries.values()) {
      // A job that this manager has written since that version cannot be in the list.
      if (!there.has(entry.uid) && !isNewer(entry.resourceVersion, resourceVersion)) this.drop(entry);
    }
    this.#reported.clear();
    this.#batch = [];
    for (const object of objects) {
      if (!object.entry) continue;
      this.put(object);
      this.#reported.set(object.metadata.uid, reportedState(object.entry));
    }
    const known = this.#batch.filter((entry) => this.#entries.get(entry.uid) === entry);
    this.#batch = undefined;
    this.index.add(known);
    this.log.restart(resourceVersion);
    this.#events.changed();
  }

  onChanged(object: Stored<ReadJob>): void {
    const entry = this.#read(object);
    if (entry) {
      const { uid } = entry;
      // An object that was a tombstone from the beginning was never reported, so it is no change.
      const before = this.#reported.get(uid);
      if (before !== reportedState(entry))
        this.log.note({ service: entry.service, id: entry.id }, entry.resourceVersion);
      this.#reported.set(uid, reportedState(entry));
      this.put(object, entry);
    }
    this.#reach(object);
  }

  onDeleted(object: Stored<ReadJob>): void {
    const { uid, resourceVersion } = object.metadata;
    const entry = this.#read(object);
    if (entry?.record) this.log.note({ service: entry.service, id: entry.id }, resourceVersion);
    this.#reported.delete(uid);
    this.drop({ uid });
    this.#reach(object);
  }

  onError(error: unknown): void {
    this.#events.report(error);
  }

  #reach({ metadata }: Stored<ReadJob>): void {
    this.log.reach(metadata.resourceVersion);
    this.#events.changed();
  }

  /** A Job that cannot be parsed is reported and skipped; it does not affect the others. */
  #read(object: Stored<ReadJob>): JobEntry | undefined {
    try {
      return readJob(object);
    } catch (error) {
      this.#events.report(error);
      return undefined;
    }
  }

  #keep(entry: JobEntry, before: JobEntry | undefined): void {
    // The same job with another uid: the old object is gone, and the watch has not reported it yet.
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

/** The parts of an entry whose changes are reported: the record, and whether Kueue suspends the Job, which does not change the record. */
const reportedState = ({ record, suspended }: JobEntry) => record && `${record.version} ${suspended}`;

/**
 * How many changes are remembered. With fewer, a follower that was disconnected for a moment must list all jobs again; more
 * take memory, some 100 bytes each.
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
 * The changes in the order of the watch. Every manager sees the same order, so a cursor is valid at each of them. Only the
 * watch counts: this manager's own writes may be ahead of earlier writes of others that the watch has not delivered yet.
 */
export class ChangeLog {
  readonly #remembered: number;
  #changes: Change[] = [];
  /** The version of the last change of each job. */
  readonly #last = new Map<string, string>();
  /** Changes before this version are not completely known. */
  #floor = '0';
  /** The version that the watch has reached. */
  #reached = '0';
  #waiting: { readonly resourceVersion: string; readonly resolve: () => void }[] = [];

  constructor(remembered = REMEMBERED_CHANGES) {
    this.#remembered = remembered;
  }

  /** Everything was listed at this version: the changes since the previous list are unknown. */
  restart(resourceVersion: string): void {
    this.#changes = [];
    this.#last.clear();
    this.#floor = resourceVersion;
    this.reach(resourceVersion);
  }

  /** The watch has reached this version. */
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
    this.#last.set(jobKeyText(key), resourceVersion);
    if (this.#changes.length > this.#remembered) this.#forget(Math.ceil(this.#remembered / 2));
  }

  /** The changes after a cursor. Without one: no changes, and the current cursor. */
  read(since: Cursor | undefined, service: string | undefined, limit: number): ChangedKeys {
    const reached = this.#reached;
    if (since === undefined) return { keys: [], cursor: changeCursor(reached) };
    const after = readChangeCursor(since);
    if (isNewer(this.#floor, after)) throw cursorExpired();
    // The cursor is of a manager whose watch is ahead; this one catches up in a moment.
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

  /** Resolves to true when the watch has reached this version, to false when it has not after that time. */
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

  /** The index of the first newer change. */
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
    return this.#last.get(jobKeyText(key)) === resourceVersion;
  }

  #forget(count: number): void {
    for (const change of this.#changes.splice(0, count)) {
      this.#floor = change.resourceVersion;
      if (this.#isLast(change)) this.#last.delete(jobKeyText(change.key));
    }
  }
}

const jobKeyText = ({ service, id }: JobKey) => `${service}/${id}`;

/** Limits of the cache: number of objects, and the total length of their annotations, which is mostly events. */
interface RecentRecordsLimits {
  readonly objects: number;
  readonly characters: number;
}

/**
 * A job changes about five times within minutes. Larger limits take memory; with smaller ones, and more jobs in progress
 * than that, each job is read from the server before it is changed.
 */
const LIMITS: RecentRecordsLimits = { objects: 2_000, characters: 16_000_000 };

/** The complete objects that were seen last. An update must send the complete object. */
export class RecentRecords {
  readonly #objects = new Map<string, { readonly object: Stored<KubeJob>; readonly characters: number }>();
  readonly #limits: RecentRecordsLimits;
  #characters = 0;

  constructor(limits: RecentRecordsLimits = LIMITS) {
    this.#limits = limits;
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
      if (this.#objects.size <= this.#limits.objects && this.#characters <= this.#limits.characters) return;
      this.delete(oldest);
    }
  }

  delete(uid: string): void {
    this.#characters -= this.#objects.get(uid)?.characters ?? 0;
    this.#objects.delete(uid);
  }
}

/** Without `managedFields`, which are as long as the rest; the server keeps them when they are left out. */
function withoutManagedFields(object: Stored<KubeJob>): Stored<KubeJob> {
  const { managedFields: _, ...metadata } = object.metadata as Stored<KubeJob>['metadata'] & {
    managedFields?: unknown;
  };
  return { ...object, metadata };
}
