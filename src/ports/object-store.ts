import type { Secret } from '../lib/secret.ts';
import type { Cursor, Page } from '../lib/version.ts';

/**
 * The object store of a cluster: buckets with an owner and a visibility, keys of users, keys for single jobs, and
 * which prefixes report new objects. Objects themselves travel over S3 between the store and its clients.
 */
export interface ObjectStore {
  /** Why users have no keys here, as a sentence; absent where they can have some. */
  readonly noUserKeys?: string;

  /** Why jobs get no keys here, as a sentence; undefined where they do. */
  noJobKeys?(): Promise<string | undefined>;

  /** Makes the user known to the store, with these keys. With the same ones again nothing happens; with others the old
   * ones stop working at once. */
  putUser(uid: string, keys: StoreKeys): Promise<void>;

  /** Says whose it is when there already is a bucket of that name, and leaves it as it is. */
  createBucket(bucket: NewBucket): Promise<'created' | { readonly exists: Bucket }>;

  bucket(name: string): Promise<Bucket | undefined>;

  /** By name. The manager's own buckets are never among them. */
  buckets(query: BucketQuery): Promise<Page<Bucket>>;

  /** Throws `absent` when there is no such bucket. */
  changeBucket(name: string, change: BucketChange): Promise<void>;

  /** With everything in it and its rules. Removing what is not there is fine. */
  removeBucket(name: string): Promise<void>;

  /** An empty object `<folder>/`, as S3 browsers show folders. It is no event. */
  ensureFolder(bucket: string, folder: string): Promise<void>;

  /** Objects whose key begins with the prefix, by key. Throws `expired` for a cursor that is none. */
  objects(bucket: string, query: ObjectQuery): Promise<Page<StoredObject>>;

  /** From now on, an object created under the prefix is an event for this subscriber. Again: nothing changes. */
  subscribe(subscription: Subscription): Promise<void>;

  /** Ending what is not there is fine. */
  unsubscribe(subscription: Subscription): Promise<void>;

  /** The manager's own bucket, where other clusters put what they made for this one. No user sees it. */
  readonly stagingBucket: string;

  /** Makes it if it is not there. Throws `conflict` when somebody else has it. */
  ensureStaging(): Promise<void>;

  /** The whole object; undefined when there is none. Throws `too-large` for one of more bytes. */
  read(bucket: string, key: string, mostBytes: number): Promise<Uint8Array | undefined>;

  /**
   * Copies an object to its final place within the store, once: done again it is `there` and nothing is written, also when
   * somebody has replaced or removed the final object meanwhile, for as long as the source is not removed. The copy has
   * the content type of its source, the mark, and nothing else; it is an event like any other new object.
   */
  place(from: PlaceFrom, to: ObjectName, by: PlacedBy): Promise<Placed>;

  /** Everything whose key begins with the prefix, half-done uploads too. Again, or from no bucket: nothing happens. */
  removeObjects(bucket: string, prefix: string): Promise<void>;

  presign(request: PresignRequest): Promise<string>;

  /**
   * Keys that can do exactly this and nothing else, for a limited time. The caller has checked that whoever they are
   * for may do it: they are minted with the manager's own identity, so that the scope is the whole right. What is
   * written with them is reported as theirs. With `inProcess` nobody outside this manager gets them, so that a store may
   * let them end with it. With `purpose` all that were given for it can be ended together, by any manager.
   */
  issue(
    scope: KeyScope,
    ttlSeconds: number,
    onBehalfOf: string,
    options?: { readonly inProcess?: boolean; readonly purpose?: string },
  ): Promise<IssuedKeys>;

  /** Ends issued keys at once, where the store can (`revocable`). */
  revoke(id: string): Promise<void>;

  /** Ends all that were issued for this purpose, whoever did it, where the store can. */
  revokeFor(purpose: string): Promise<void>;
}

/** Its name, unless the operator chooses another that begins so. */
export const STAGING_BUCKET = 'oscar-staging';

/** Keys of a user or of the manager. */
export interface StoreKeys {
  readonly accessKey: Secret;
  readonly secretKey: Secret;
}

export type Visibility = 'private' | 'restricted' | 'public';

export interface NewBucket {
  readonly name: string;
  /** Uid of a user, or `cluster_admin`. */
  readonly owner: string;
  /** For people. */
  readonly ownerName: string;
  readonly visibility: Visibility;
  /** With `restricted`: who else. */
  readonly allowedUsers: readonly string[];
  /** The service that it was made for and goes with: its uid and its name. */
  readonly madeFor?: { readonly uid: string; readonly service: string };
}

export interface Bucket extends NewBucket {
  readonly usage: { readonly bytes: number; readonly objects: number };
  /** Most bytes it may hold. */
  readonly quota?: number;
}

export interface BucketChange {
  readonly visibility?: Visibility;
  readonly allowedUsers?: readonly string[];
  /** `null`: it no longer goes with a service. */
  readonly madeFor?: { readonly uid: string; readonly service: string } | null;
  /** `null`: no limit. */
  readonly quota?: number | null;
}

export interface BucketQuery {
  /** Only those this user reaches: own, shared with them, public. */
  readonly visibleTo?: string;
  /** Only those made for the service with this uid. */
  readonly madeFor?: string;
  readonly cursor?: Cursor;
}

export interface ObjectQuery {
  readonly prefix?: string;
  readonly cursor?: Cursor;
  readonly limit: number;
}

export interface StoredObject {
  readonly key: string;
  readonly bytes: number;
  readonly eTag: string;
  /** Milliseconds since 1970. */
  readonly modifiedAt: number;
}

export interface ObjectName {
  readonly bucket: string;
  readonly key: string;
}

export interface PlaceFrom extends ObjectName {
  /** The source counts only with this one. */
  readonly eTag: string;
}

export interface PlacedBy {
  /** Tells what was placed by whom: the metadata `oscar-attempt` of the copy. */
  readonly mark: string;
  /** The principal of its event. */
  readonly as: string;
}

/**
 * `there`: it was placed before, by the same mark. `changed`: the source has another eTag. `missing`: there is no source.
 * `full`: the quota of the bucket is used up. `no-bucket`: there is none to place it in. `refused`: why the store does not
 * take it under this name, as the end of a sentence; trying again would not help. What may pass is thrown.
 */
export type Placed = 'placed' | 'there' | 'changed' | 'missing' | 'full' | 'no-bucket' | { readonly refused: string };

export interface Subscription {
  readonly bucket: string;
  readonly prefix: string;
  /** Uid of the service. */
  readonly subscriber: string;
  /** Its name: what another manager has arranged under that ends with it. */
  readonly service?: string;
}

export interface PresignRequest {
  readonly method: 'GET' | 'PUT';
  readonly bucket: string;
  readonly key: string;
  readonly expiresIn: number;
  /** In whose name it is used, as far as the store knows them: what is written with it is theirs. */
  readonly as?: string;
  /** Headers that the client must send as they are. */
  readonly headers?: Readonly<Record<string, string>>;
  /** For programs of this cluster: by the address that the manager itself uses. */
  readonly inside?: boolean;
  /** For GET: the type that the answer shall have. */
  readonly responseContentType?: string;
}

export interface KeyScope {
  /** Objects that may be read. */
  readonly read: readonly ObjectName[];
  /** Prefixes below which objects may be read. */
  readonly readUnder?: readonly { readonly bucket: string; readonly prefix: string }[];
  /** Prefixes below which objects may be written. */
  readonly write: readonly { readonly bucket: string; readonly prefix: string }[];
}

export interface IssuedKeys extends StoreKeys {
  readonly id: string;
  readonly sessionToken: Secret;
  readonly expiresAt: Date;
  /** Can they be ended before they expire? */
  readonly revocable: boolean;
}
