import type { Secret } from '../lib/secret.ts';
import type { Cursor, Page } from '../lib/version.ts';

/**
 * The object store of a cluster: buckets with an owner and a visibility, keys of users, keys for single jobs, and
 * which prefixes report new objects. Objects themselves travel over S3 between the store and its clients.
 */
export interface ObjectStore {
  /** Why users cannot have keys at this store, as a sentence; absent if they can. */
  readonly noUserKeys?: string;

  /** Why jobs cannot have keys at this store, as a sentence; undefined if they can. */
  noJobKeys?(): Promise<string | undefined>;

  /** Creates the user with these keys. The same keys again are a no-op; other keys replace the old ones at once. */
  putUser(uid: string, keys: StoreKeys): Promise<void>;

  /** Returns the existing bucket, unchanged, if there is one of that name. */
  createBucket(bucket: NewBucket): Promise<'created' | { readonly exists: Bucket }>;

  bucket(name: string): Promise<Bucket | undefined>;

  /** Sorted by name, without the manager's own buckets. */
  buckets(query: BucketQuery): Promise<Page<Bucket>>;

  /** Throws `absent` if there is no such bucket. */
  changeBucket(name: string, change: BucketChange): Promise<void>;

  /** Removes the bucket with its objects and its rules; does nothing if there is none. */
  removeBucket(name: string): Promise<void>;

  /** Creates an empty object `<folder>/`, which S3 browsers show as a folder. It causes no event. */
  ensureFolder(bucket: string, folder: string): Promise<void>;

  /** Objects whose key begins with the prefix, sorted by key. Throws `expired` for an invalid cursor. */
  objects(bucket: string, query: ObjectQuery): Promise<Page<StoredObject>>;

  /** From now on, an object that is created under the prefix is an event for this subscriber. Calling it again is a no-op. */
  subscribe(subscription: Subscription): Promise<void>;

  /** Does nothing if there is no such subscription. */
  unsubscribe(subscription: Subscription): Promise<void>;

  /** The manager's own bucket, to which targets write the results of delegated jobs. No user sees it. */
  readonly stagingBucket: string;

  /** Creates the staging bucket if it is missing. Throws `conflict` if it belongs to another user. */
  ensureStaging(): Promise<void>;

  /** The whole object; undefined if there is none. Throws `too-large` for an object of more bytes. */
  read(bucket: string, key: string, mostBytes: number): Promise<Uint8Array | undefined>;

  /**
   * Copies an object to its final place within the store, once. A second call returns `there` and writes nothing, also if the
   * final object was replaced or removed meanwhile, as long as the source exists. The copy has the content type of its
   * source and the mark, and no other metadata; it causes an event like any other new object.
   */
  place(from: PlaceFrom, to: ObjectName, by: PlacedBy): Promise<Placed>;

  /** Who wrote an object; undefined if there is none. */
  labels(at: ObjectName): Promise<OutputLabels | undefined>;

  /** Removes all objects whose key begins with the prefix, and their unfinished uploads. Does nothing without objects or bucket. */
  removeObjects(bucket: string, prefix: string): Promise<void>;

  presign(request: PresignRequest): Promise<string>;

  /**
   * Issues keys with exactly this scope, for a limited time. The caller has checked that `onBehalfOf` may do this: the keys
   * are issued with the manager's own identity, so the scope is their only restriction. Events of objects that are written
   * with them name `onBehalfOf`. With `inProcess` the keys never leave this manager, so the store may end them with it. Keys
   * with a `purpose` can be revoked together, by any manager.
   */
  issue(
    scope: KeyScope,
    ttlSeconds: number,
    onBehalfOf: string,
    options?: { readonly inProcess?: boolean; readonly purpose?: string },
  ): Promise<IssuedKeys>;

  /** Revokes issued keys at once, if the store can (`revocable`). */
  revoke(id: string): Promise<void>;

  /** Revokes all keys that any manager issued for this purpose, if the store can. */
  revokeFor(purpose: string): Promise<void>;
}

/** The default name of the staging bucket; names that the operator chooses begin with it. */
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
  /** For display. */
  readonly ownerName: string;
  readonly visibility: Visibility;
  /** With `restricted`: the other users that may use it. */
  readonly allowedUsers: readonly string[];
  /** The service that the bucket was created for and is removed with: its uid and its name. */
  readonly madeFor?: { readonly uid: string; readonly service: string };
}

export interface Bucket extends NewBucket {
  readonly usage: { readonly bytes: number; readonly objects: number };
  /** Maximum size in bytes. */
  readonly quota?: number;
}

export interface BucketChange {
  readonly visibility?: Visibility;
  readonly allowedUsers?: readonly string[];
  /** `null`: it is no longer removed with a service. */
  readonly madeFor?: { readonly uid: string; readonly service: string } | null;
  /** `null`: no limit. */
  readonly quota?: number | null;
}

export interface BucketQuery {
  /** Only buckets that this user may use: own, shared and public ones. */
  readonly visibleTo?: string;
  /** Only buckets that were created for the service with this uid. */
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
  /** The source must have this eTag. */
  readonly eTag: string;
}

export interface PlacedBy {
  /** The attempt that made the object: the metadata `oscar-attempt` of the copy. */
  readonly mark: string;
  /** The principal of its event. */
  readonly as: string;
  /**
   * The metadata `oscar-input` of the copy. If it is set, an existing object is replaced only if it has the same label.
   */
  readonly inputLabel?: string;
}

/**
 * `there`: it was placed before with the same mark. `changed`: the source has another eTag. `missing`: there is no source.
 * `full`: the quota of the bucket is used up. `no-bucket`: the bucket does not exist. `refused`: why the store rejects this
 * name, as the end of a sentence; a retry would not help. `conflict`: the object there has another input label, or none.
 * Temporary errors are thrown.
 */
export type Placed =
  | 'placed'
  | 'there'
  | 'changed'
  | 'missing'
  | 'full'
  | 'no-bucket'
  | 'conflict'
  | { readonly refused: string };

/** Which attempt wrote an object and for which input, from its metadata. */
export interface OutputLabels {
  readonly attempt: string | undefined;
  readonly inputLabel: string | undefined;
}

export interface Subscription {
  readonly bucket: string;
  readonly prefix: string;
  /** Uid of the service. */
  readonly subscriber: string;
  /** Name of the service. A subscription that a Go manager created under this name is removed with this one. */
  readonly service?: string;
}

export interface PresignRequest {
  readonly method: 'GET' | 'PUT' | 'POST' | 'DELETE';
  readonly bucket: string;
  readonly key: string;
  readonly expiresIn: number;
  /** The user on whose behalf the URL is used, if the store knows users: objects that are written with it name this user. */
  readonly as?: string;
  /** Headers that the client must send unchanged. */
  readonly headers?: Readonly<Record<string, string>>;
  /** For programs of this cluster: with the address that the manager itself uses. */
  readonly inside?: boolean;
  /** For GET: the content type of the response. */
  readonly responseContentType?: string;
  /** Which operation on the object it is, if not the plain one: `uploads`, `uploadId`, `partNumber`. Part of the signature. */
  readonly query?: Readonly<Record<string, string>> | undefined;
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
  /** Whether they can be revoked before they expire. */
  readonly revocable: boolean;
}
