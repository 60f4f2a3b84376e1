import type { JobKey } from '../../job-record.ts';
import type { Listener } from '../api/informer.ts';
import type { Job, Stored } from '../api/kinds.ts';
import { isNewer } from '../api/resource-version.ts';
import { AtHand } from './at-hand.ts';
import { ChangeLog } from './change-log.ts';
import { JobIndex } from './job-index.ts';
import { type JobEntry, readJob } from './job-object.ts';

/** Removed objects that are remembered. An answer that is older than so many removals is not awaited any more. */
const REMEMBERED = 10_000;

/** Of a long list: what it says is read at once, and the rest, with the event, let go. */
interface ReadJob extends Job {
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
  readonly atHand = new AtHand();
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
