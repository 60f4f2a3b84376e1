import type { AddressInfo } from 'node:net';
import type { Readable } from 'node:stream';
import type { Secret } from '../lib/secret.ts';
import type {
  BucketPage,
  BucketUsageCount,
  NewStoreBucket,
  Rule,
  StoreBucket,
  StoreBucketChange,
} from './store/buckets.ts';
import type { PlacedObject } from './store/copy.ts';
import type { OutboxEvent } from './store/events.ts';
import type { NewSession, SessionKeys } from './store/identities.ts';
import type { ObjectRecord } from './store/objects.ts';

export interface BucketView extends Omit<StoreBucket, 'id' | 'cors'> {
  readonly usage: BucketUsageCount;
}

export type ObjectView = Omit<ObjectRecord, 'content'>;

export interface ObjectPage {
  readonly objects: readonly ObjectView[];
  readonly commonPrefixes: readonly string[];
  /** `after` of the next page; undefined on the last page. */
  readonly next: string | undefined;
}

export interface WriteOptions {
  readonly contentType?: string;
  /** `x-amz-meta-<name>`. */
  readonly metadata?: Readonly<Record<string, string>>;
  readonly tags?: Readonly<Record<string, string>>;
  readonly ifMatch?: string;
  readonly ifNoneMatch?: '*';
  /** The user in the event; by default the manager. */
  readonly as?: string;
}

export interface CopyOptions extends Omit<WriteOptions, 'ifMatch' | 'contentType' | 'tags'> {
  /** The required ETag of the source. */
  readonly ifMatch?: string;
  /** Removes the source in the same transaction. */
  readonly move?: boolean;
}

export interface ObjectAddress {
  readonly bucket: string;
  readonly key: string;
}

export interface PresignOptions {
  /** Seconds: 1 to 604,800. */
  readonly expires: number;
  /** The access key of a user; by default the manager's. */
  readonly as?: string;
  /** The URL at which clients reach the store: `https://minio.example.org`. */
  readonly endpoint: string;
  /** Clients of the URL must send these. */
  readonly contentType?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The content type of the response to a download. */
  readonly responseContentType?: string;
  /** Further parameters, which the signature includes. */
  readonly query?: Readonly<Record<string, string>>;
}

/** The embedded object store: an S3 server, and the same store from inside the process. */
export interface ObjectStoreServer {
  listen(address: { readonly host: string; readonly port: number }): Promise<AddressInfo>;
  /** Waits a few seconds for running requests. */
  close(): Promise<void>;

  /**
   * Creates a user or changes the secret. The old secret and the keys that the user got with it through STS end at
   * once.
   */
  putUser(accessKey: string, secret: Secret): Promise<void>;
  hasUser(accessKey: string): boolean;
  /** The user's buckets stay. */
  removeUser(accessKey: string): Promise<void>;

  createBucket(
    bucket: NewStoreBucket,
  ): Promise<{ readonly created: true } | { readonly created: false; readonly owner: string }>;
  updateBucket(name: string, change: StoreBucketChange): Promise<void>;
  describeBucket(name: string): BucketView | undefined;
  listBuckets(page: BucketPage): BucketView[];
  deleteBucket(name: string, options: { readonly withContent: boolean }): Promise<void>;

  putObject(at: ObjectAddress, bytes: Uint8Array, options?: WriteOptions): Promise<ObjectView>;
  writeObject(at: ObjectAddress, source: AsyncIterable<Uint8Array>, options?: WriteOptions): Promise<ObjectView>;
  statObject(at: ObjectAddress): ObjectView | undefined;
  readObject(at: ObjectAddress): { readonly object: ObjectView; readonly stream: Readable };
  listObjects(
    bucket: string,
    page: { readonly prefix?: string; readonly delimiter?: string; readonly after?: string; readonly limit: number },
  ): ObjectPage;
  /** Resolves to whether the object existed. */
  deleteObject(at: ObjectAddress): Promise<boolean>;
  /** Removes all objects whose key begins with the prefix, and all multipart uploads for such keys. */
  deleteUnder(bucket: string, prefix: string): Promise<void>;
  copyObject(from: ObjectAddress, to: ObjectAddress, options?: CopyOptions): Promise<ObjectView>;
  /** Copies an object to its final place, at most once: see {@link PlacedObject}. */
  placeObject(
    from: ObjectAddress & { readonly eTag: string },
    to: ObjectAddress,
    options: { readonly mark: string; readonly as?: string; readonly inputLabel?: string },
  ): Promise<PlacedObject>;

  putRule(
    bucket: string,
    rule: { readonly id: string; readonly prefix: string; readonly suffix?: string },
  ): Promise<void>;
  removeRule(bucket: string, id: string): Promise<void>;
  listRules(bucket: string): readonly Rule[];

  /**
   * Issues keys that are valid for `ttl` milliseconds; only the policy document grants them rights. `parent` is the
   * principal of their events. With `inProcess` they end with this process at the latest.
   */
  issueKeys(keys: Omit<NewSession, 'kind'> & { readonly policy: string }): Promise<SessionKeys>;
  revokeKeys(id: string): Promise<void>;
  /** Revokes all keys that were issued for this purpose. */
  revokeKeysFor(purpose: string): Promise<void>;

  presign(method: 'GET' | 'PUT' | 'POST' | 'HEAD' | 'DELETE', at: ObjectAddress, options: PresignOptions): string;

  /** The oldest unacknowledged events, in order; `after` skips those that are already being processed. */
  takeEvents(limit: number, after?: number): OutboxEvent[];
  /** Acknowledges all events up to this sequence number, or these events. */
  ackEvents(events: number | readonly number[]): Promise<void>;
  /** Calls the listener when there may be new events. Returns a function that unsubscribes it. */
  onEvents(listener: () => void): () => void;
}
