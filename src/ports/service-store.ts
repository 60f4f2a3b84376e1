import type { Cursor, Page, Version } from '../lib/version.ts';
import { inputFolders, outputFolders, type Service } from '../model/service/index.ts';

/**
 * The services of one cluster. The interface fits a database and the Kubernetes API: versions are opaque, every write is a
 * compare-and-swap, watches are level-triggered, and all queries use an index.
 */
export interface ServiceStore {
  /**
   * The namespace for the services of this owner: `wanted`, unless another owner has it already (S18). It is created if it is
   * missing, so that the secrets of a service can be stored there before the service.
   */
  claimNamespace(owner: string, wanted: string): Promise<string>;

  /**
   * Reserves a name in the whole cluster before anything else is created. A name is taken by a service, or by a reservation
   * younger than {@link RESERVATION_LIFETIME}. An older reservation without a service is replaced: its manager has died, and
   * its `create` would fail.
   */
  reserve(name: string, uid: string): Promise<Reservation | 'taken'>;

  /** Releases an unused reservation; does nothing if it was lost. */
  release(reservation: Reservation): Promise<void>;

  /** Throws `conflict` if the reservation was lost, or is not for this service's name and uid. */
  create(reservation: Reservation, service: Service): Promise<ServiceRecord>;

  /**
   * Throws `conflict` if the record has another version, `absent` if it was removed. Uid and namespace never change: a service
   * that differs in them is another service, and also a `conflict`.
   */
  replace(service: Service, expected: Version): Promise<ServiceRecord>;

  /** Removes the record and frees its name. Throws like {@link replace}. */
  remove(name: string, expected: Version): Promise<void>;

  /**
   * A cache asks the server before it returns undefined. With several managers a record may be slightly old: a write based on
   * it then conflicts, and the next read is newer.
   */
  get(name: string): Promise<ServiceRecord | undefined>;

  /** The same, but never older than the call: for callers that remove something because of the result. */
  getFresh(name: string): Promise<ServiceRecord | undefined>;

  /**
   * Records with any of the terms (all records without `anyOf`), each once, in the byte order of `<namespace>/<name>`, which
   * is the order of the Go manager. May lag behind writes, unless `fresh`.
   */
  list(query: ServiceQuery): Promise<Page<ServiceRecord>>;

  /**
   * Level-triggered: changes may be repeated or coalesced, and the consumer reads the record. Every change after the call is
   * reported, if necessary as `resync`, so a list after the call misses nothing. Ends when the signal aborts.
   */
  watch(signal: AbortSignal): AsyncIterable<ServiceChange>;
}

/**
 * How long a reservation without a service is valid. With a shorter time a slow create (buckets on a slow store) loses its
 * name to another one; with a longer one a name stays blocked after a crash. A create takes well under a second, and has a
 * budget of 14 s in a federation.
 */
export const RESERVATION_LIFETIME = 30_000;

export interface Reservation {
  readonly name: string;
  /** Of the service that is being created. */
  readonly uid: string;
}

/** Frozen and shared: while a record is cached, reads return the same object. */
export interface ServiceRecord {
  readonly service: Service;
  readonly version: Version;
}

export interface ServiceQuery {
  anyOf?: readonly IndexTerm[];
  cursor?: Cursor;
  limit?: number;
  /** Never older than the call, for callers that remove something because of the result. With several managers all records are read anew. */
  fresh?: boolean;
}

export type ServiceChange =
  | { kind: 'changed'; name: string; version: Version }
  | { kind: 'gone'; name: string }
  /** Changes may have been missed: list again. */
  | { kind: 'resync' };

/** One entry of the index, see {@link indexTermsFor}. */
export type IndexTerm = string & { readonly __term: never };

/*
 * Terms for queries. Every adapter indexes a service under the terms of `indexTermsFor`, so that "who sees it", "whose input
 * is this bucket" and "has this label" are look-ups, never scans (R18).
 */

/** Services that this user sees besides the public ones. */
export const visibleTo = (uid: string) => `viewer:${uid}` as IndexTerm;

export const visibleToAll = 'public' as IndexTerm;

/** Services that read from this bucket of the cluster's store. */
export const readsBucket = (bucket: string) => `input:${bucket}` as IndexTerm;

/** Services that read from it or write to it. */
export const usesBucket = (bucket: string) => `bucket:${bucket}` as IndexTerm;

/** The key is quoted so that `a=b` with `c` and `a` with `b=c` are two terms. */
export const labelled = (key: string, value: string) => `label:${JSON.stringify(key)}=${value}` as IndexTerm;

export function indexTermsFor(service: Service): IndexTerm[] {
  const { definition, owner } = service;
  const viewers = definition.visibility === 'restricted' ? [owner, ...definition.allowed_users] : [owner];
  const inputs = inputFolders(service);
  const terms = [
    ...viewers.map(visibleTo),
    ...(definition.visibility === 'public' ? [visibleToAll] : []),
    ...inputs.map(({ bucket }) => readsBucket(bucket)),
    ...[...inputs, ...outputFolders(service)].map(({ bucket }) => usesBucket(bucket)),
    ...Object.entries(definition.labels).map(([key, value]) => labelled(key, value)),
  ];
  return [...new Set(terms)];
}

/**
 * Changes that are queued for a slow consumer. Beyond this number it gets `resync` instead: listing again is cheaper by then,
 * and a consumer that never reads again does not use up memory.
 */
export const WATCH_BACKLOG = 1_000;

/** Distributes changes of services to all watches. */
export class Watchers {
  readonly #all = new Set<Watcher>();

  watch(signal: AbortSignal): AsyncIterable<ServiceChange> {
    const watcher = new Watcher();
    const end = () => {
      this.#all.delete(watcher);
      watcher.end();
    };
    if (signal.aborted) end();
    else {
      // Subscribe now, not at the first read, so that no change in between is missed.
      this.#all.add(watcher);
      signal.addEventListener('abort', end, { once: true });
    }
    return watcher.changes(() => {
      signal.removeEventListener('abort', end);
      end();
    });
  }

  notify(change: Exclude<ServiceChange, { kind: 'resync' }>): void {
    for (const watcher of this.#all) watcher.notify(change);
  }

  end(): void {
    for (const watcher of this.#all) watcher.end();
    this.#all.clear();
  }
}

class Watcher {
  /** By name, so that a service that changed ten times is read once. */
  readonly #pending = new Map<string, ServiceChange>();
  #overflown = false;
  #ended = false;
  #wake: (() => void) | undefined;

  notify(change: Exclude<ServiceChange, { kind: 'resync' }>): void {
    if (this.#overflown) return;
    this.#pending.set(change.name, change);
    if (this.#pending.size > WATCH_BACKLOG) {
      this.#pending.clear();
      this.#overflown = true;
    }
    this.#wake?.();
  }

  end(): void {
    this.#ended = true;
    this.#wake?.();
  }

  async *changes(done: () => void): AsyncGenerator<ServiceChange, undefined> {
    try {
      while (!this.#ended) {
        const change = this.#take();
        if (change) yield change;
        else await this.#woken();
      }
    } finally {
      done();
    }
  }

  #take(): ServiceChange | undefined {
    if (this.#overflown) {
      this.#overflown = false;
      return { kind: 'resync' };
    }
    for (const [name, change] of this.#pending) {
      this.#pending.delete(name);
      return change;
    }
    return undefined;
  }

  #woken(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    return promise;
  }
}
