import {
  type IndexTerm,
  indexTermsFor,
  type SecretValues,
  type ServiceChange,
  type ServiceRecord,
  StoreError,
} from '../../../ports/index.ts';
import type { InformerHandler } from '../client/informer.ts';
import { type ConfigMap, isNewer, type KubeObject, type Stored } from '../client/kinds.ts';
import { credentialsIn, fromConfigMap, isDefinition } from './definition.ts';

type NamedChange = Exclude<ServiceChange, { kind: 'resync' }>;

/** A definition as it was last seen. */
export interface ServiceEntry {
  /** Metadata only: the content is in the record, and a script may have a megabyte. */
  readonly object: Stored<KubeObject>;
  /** The record, or the error if it cannot be parsed. */
  readonly record: ServiceRecord | StoreError;
}

/**
 * How many removed objects are remembered. With fewer, a delayed response could bring back a removed service; more take
 * memory, some 100 bytes each.
 */
const REMEMBERED = 10_000;

const placeOf = ({ metadata }: KubeObject) => `${metadata.namespace}/${metadata.name}`;

/**
 * All services. It is fed by lists, watches and the responses to the manager's own writes, in any order: the newest version
 * stays, and an older event does not bring back a removed service.
 */
export class ServiceCache implements InformerHandler<ConfigMap> {
  readonly #entries = new Map<string, ServiceEntry>();
  readonly #byName = new Map<string, Set<string>>();
  readonly #index = new ServiceIndex();
  /** The last versions of removed objects, by uid: a delayed response must not bring one back. */
  readonly #removed = new Map<string, string>();
  /** Credentials in clear text in definitions of a Go manager, by uid. */
  readonly #credentials = new Map<string, SecretValues>();
  readonly #notify: (change: NamedChange) => void;
  readonly #report: (problem: unknown) => void;

  constructor(onChange: (change: NamedChange) => void, report: (problem: unknown) => void) {
    this.#notify = onChange;
    this.#report = report;
  }

  /** If several definitions have the same name, which only a Go manager can cause, the oldest counts. */
  find(name: string): ServiceEntry | undefined {
    const places = this.#byName.get(name);
    if (!places) return undefined;
    const entries = [...places].flatMap((place) => this.#entries.get(place) ?? []);
    return entries.toSorted(byAge)[0];
  }

  at(place: string): ServiceEntry | undefined {
    return this.#entries.get(place);
  }

  /** Credentials that a Go manager stored in the definition with this uid. */
  credentials(uid: string): SecretValues | undefined {
    return this.#credentials.get(uid);
  }

  list(anyOf: readonly IndexTerm[] | undefined, start: string, limit: number): [place: string, ServiceRecord][] {
    return this.#index.list(anyOf, start, limit);
  }

  /** Returns the current entry: of this object, of a newer one, or undefined when it has been removed. */
  put(object: Stored<ConfigMap>): ServiceEntry | undefined {
    const place = placeOf(object);
    const known = this.#entries.get(place);
    const { uid, resourceVersion } = object.metadata;
    const removed = this.#removed.get(uid);
    if (removed !== undefined && !isNewer(resourceVersion, removed)) return known;
    if (known && !isNewer(resourceVersion, known.object.metadata.resourceVersion)) return known;
    if (!isDefinition(object)) return this.#drop(place);
    const entry = { object: slim(object), record: this.#read(object) };
    const credentials = entry.record instanceof StoreError ? undefined : credentialsIn(object);
    this.#keep(place, entry);
    if (credentials) this.#credentials.set(uid, credentials);
    else this.#credentials.delete(uid);
    return entry;
  }

  /** Call when the server no longer has the object. */
  drop(object: Stored<KubeObject>): void {
    const { uid, resourceVersion } = object.metadata;
    this.#removed.set(uid, resourceVersion);
    if (this.#removed.size > REMEMBERED)
      for (const oldest of this.#removed.keys()) {
        this.#removed.delete(oldest);
        break;
      }
    const place = placeOf(object);
    if (this.#entries.get(place)?.object.metadata.uid === uid) this.#drop(place);
  }

  onListed(objects: readonly Stored<ConfigMap>[], resourceVersion: string): void {
    const there = new Set(objects.map(placeOf));
    for (const [place, { object }] of this.#entries) {
      // A service that this manager has written since that version cannot be in the list.
      if (!there.has(place) && !isNewer(object.metadata.resourceVersion, resourceVersion)) this.#drop(place);
    }
    for (const object of objects) this.put(object);
  }

  onChanged(object: Stored<ConfigMap>): void {
    this.put(object);
  }

  onDeleted(object: Stored<ConfigMap>): void {
    this.drop(object);
  }

  onError(error: unknown): void {
    this.#report(error);
  }

  #read(object: Stored<ConfigMap>): ServiceRecord | StoreError {
    try {
      return fromConfigMap(object);
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      this.#report(error);
      return error;
    }
  }

  #keep(place: string, entry: ServiceEntry): void {
    const { name } = entry.object.metadata;
    this.#entries.set(place, entry);
    const places = this.#byName.get(name) ?? new Set();
    this.#byName.set(name, places.add(place));
    if (entry.record instanceof StoreError) {
      this.#index.delete(place);
      this.#notify({ kind: 'gone', name });
    } else {
      this.#index.put(place, entry.record);
      this.#notify({ kind: 'changed', name, version: entry.record.version });
    }
  }

  #drop(place: string): undefined {
    const entry = this.#entries.get(place);
    if (!entry) return;
    const { name } = entry.object.metadata;
    this.#entries.delete(place);
    this.#credentials.delete(entry.object.metadata.uid);
    this.#index.delete(place);
    const places = this.#byName.get(name);
    places?.delete(place);
    if (places?.size === 0) this.#byName.delete(name);
    this.#notify({ kind: 'gone', name });
  }
}

function slim({ metadata }: Stored<ConfigMap>): Stored<KubeObject> {
  const { name, namespace, uid, resourceVersion, creationTimestamp, labels, annotations, ownerReferences } = metadata;
  return {
    metadata: {
      name,
      uid,
      resourceVersion,
      ...(namespace !== undefined && { namespace }),
      ...(creationTimestamp !== undefined && { creationTimestamp }),
      ...(labels && { labels }),
      ...(annotations && { annotations }),
      ...(ownerReferences && { ownerReferences }),
    },
  };
}

function byAge(a: ServiceEntry, b: ServiceEntry): number {
  const ages = [a, b].map(({ object }) => Date.parse(object.metadata.creationTimestamp ?? ''));
  return (ages[0] ?? 0) - (ages[1] ?? 0) || (placeOf(a.object) < placeOf(b.object) ? -1 : 1);
}

/** Records by place (`<namespace>/<name>`) and by term, updated with every change, so that a lookup never scans. */
class ServiceIndex {
  readonly #records = new Map<string, { record: ServiceRecord; terms: readonly IndexTerm[] }>();
  readonly #places = new SortedSet();
  readonly #byTerm = new Map<IndexTerm, SortedSet>();

  put(place: string, record: ServiceRecord): void {
    this.delete(place);
    const terms = indexTermsFor(record.service);
    this.#records.set(place, { record, terms });
    this.#places.add(place);
    for (const term of terms) {
      const places = this.#byTerm.get(term) ?? new SortedSet();
      this.#byTerm.set(term, places);
      places.add(place);
    }
  }

  delete(place: string): void {
    const entry = this.#records.get(place);
    if (!entry) return;
    this.#records.delete(place);
    this.#places.delete(place);
    for (const term of entry.terms) {
      const places = this.#byTerm.get(term);
      places?.delete(place);
      if (places?.size === 0) this.#byTerm.delete(term);
    }
  }

  /** The first records from a place on that have any of the terms. */
  list(anyOf: readonly IndexTerm[] | undefined, start: string, limit: number): [place: string, ServiceRecord][] {
    return this.#placesFrom(anyOf, start, limit).flatMap((place) => {
      const entry = this.#records.get(place);
      return entry ? [[place, entry.record] as [string, ServiceRecord]] : [];
    });
  }

  /** The first `limit` places of all terms together are among the first `limit` of each. */
  #placesFrom(anyOf: readonly IndexTerm[] | undefined, start: string, limit: number): string[] {
    if (!anyOf) return this.#places.from(start, limit);
    const pages = anyOf.map((term) => this.#byTerm.get(term)?.from(start, limit) ?? []);
    return [...new Set(pages.flat())].toSorted(byCodeUnit).slice(0, limit);
  }
}

const byCodeUnit = (a: string, b: string) => (a < b ? -1 : Number(a > b));

/** A sorted set of strings that can be read from any position. They are ASCII, so this is also the order of bytes. */
class SortedSet {
  readonly #items: string[] = [];

  get size(): number {
    return this.#items.length;
  }

  add(item: string): void {
    const index = this.#find(item);
    if (this.#items[index] !== item) this.#items.splice(index, 0, item);
  }

  delete(item: string): void {
    const index = this.#find(item);
    if (this.#items[index] === item) this.#items.splice(index, 1);
  }

  /** The first items from `start` on. */
  from(start: string, limit: number): string[] {
    const index = this.#find(start);
    return this.#items.slice(index, index + limit);
  }

  /** The index of the item, or where it would be inserted. */
  #find(item: string): number {
    let low = 0;
    let high = this.#items.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#items[middle] ?? '') < item) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
