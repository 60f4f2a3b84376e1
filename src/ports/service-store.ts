import type { Cursor, Page, Version } from '../lib/version.ts';
import { inputFolders, outputFolders, type Service } from '../model/service/index.ts';

/**
 * The services of one cluster. Written for a database and for the Kubernetes API alike: versions are opaque, every
 * write is a compare-and-swap, watching is level-triggered, and whatever is looked up is indexed.
 */
export interface ServiceStore {
  /**
   * The namespace for the services of this owner: the wanted one, unless it is somebody else's already (S18). Made if
   * need be, so that the secrets of a service can be put there before the service is.
   */
  claimNamespace(owner: string, wanted: string): Promise<string>;

  /**
   * Takes a name in the whole cluster before anything else is made. A name is taken by a service, or by a reservation
   * younger than {@link RESERVATION_LIFETIME} that no service has followed. An older one is taken over: whoever made
   * it has died, and its `create` would fail.
   */
  reserve(name: string, uid: string): Promise<Reservation | 'taken'>;

  /** Gives an unused reservation back. One that is no longer held is left alone. */
  release(reservation: Reservation): Promise<void>;

  /** Throws `conflict` when the reservation has been lost meanwhile, or is not for this service's name and uid. */
  create(reservation: Reservation, service: Service): Promise<ServiceRecord>;

  /**
   * Throws `conflict` when the record is not in that version, `absent` when it is gone. Uid and namespace never change:
   * a service that differs in them is another service, and a `conflict` as well.
   */
  replace(service: Service, expected: Version): Promise<ServiceRecord>;

  /** Removes the record and frees its name. Throws like {@link replace}. */
  remove(name: string, expected: Version): Promise<void>;

  /**
   * A miss in a cache asks the server before it counts as a miss. Where others write too, a record may be a moment old: a
   * write by it is then refused, and after that it is not.
   */
  get(name: string): Promise<ServiceRecord | undefined>;

  /** The same, and never older than the question: for whoever removes something because of it. */
  getFresh(name: string): Promise<ServiceRecord | undefined>;

  /**
   * Records that carry any of the terms (all records without `anyOf`), each once, in the byte order of
   * `<namespace>/<name>`, which is the order the Go manager lists in. May lag behind the writes, unless it is to be `fresh`.
   */
  list(query: ServiceQuery): Promise<Page<ServiceRecord>>;

  /**
   * Level-triggered: may repeat and may coalesce; the consumer reads again. Whatever changes after the call is seen, if
   * need be as `resync`, so that a list taken after it misses nothing. Ends when the signal aborts.
   */
  watch(signal: AbortSignal): AsyncIterable<ServiceChange>;
}

/**
 * How long a reservation without a service counts. Shorter: a slow create (buckets on a slow store) loses its name to
 * another. Longer: a name stays blocked after a crash. A create takes well under a second here and has a budget of
 * 14 s in a federation.
 */
export const RESERVATION_LIFETIME = 30_000;

export interface Reservation {
  readonly name: string;
  /** Of the service that is being made. */
  readonly uid: string;
}

/** Frozen and shared: the same record is the same object for as long as it is cached. */
export interface ServiceRecord {
  readonly service: Service;
  readonly version: Version;
}

export interface ServiceQuery {
  anyOf?: readonly IndexTerm[];
  cursor?: Cursor;
  limit?: number;
  /** Never older than the question, for whoever removes something because of it. Where others write too, all are read anew. */
  fresh?: boolean;
}

export type ServiceChange =
  | { kind: 'changed'; name: string; version: Version }
  | { kind: 'gone'; name: string }
  /** Something may have been missed: list again. */
  | { kind: 'resync' };

/** One entry of the index, see {@link indexTermsFor}. */
export type IndexTerm = string & { readonly __term: never };

/**
 * The terms under which services are looked up. Every adapter indexes a service under `indexTermsFor` it, so that "who sees
 * it", "whose input is this bucket" and "has this label" are look-ups, never scans (R18).
 */

/** Services this user sees beyond the public ones. */
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
