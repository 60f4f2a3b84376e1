import type { Cursor, Page } from '../../../lib/version.ts';
import {
  type Bucket,
  type BucketChange,
  type BucketQuery,
  type IssuedKeys,
  type KeyScope,
  type NewBucket,
  type ObjectName,
  type ObjectQuery,
  type ObjectStore,
  type OutputLabels,
  type Placed,
  type PlacedBy,
  type PlaceFrom,
  type PresignRequest,
  STAGING_BUCKET,
  type StoredObject,
  StoreError,
  type StoreKeys,
  type Subscription,
} from '../../../ports/index.ts';
import { presignUrl, SigningSecret } from '../../../s3-server/index.ts';
import { EventRules, type EventTargetCache } from './event-rules.ts';
import { requestSession } from './job-keys.ts';
import { place } from './place-object.ts';
import { type S3Account, S3Api } from './s3-api.ts';
import type { SignedHttpClient } from './signed-http-client.ts';
import { ensureStagingBucket, removeObjectsUnder } from './staging-bucket.ts';
import { StoreLocks } from './store-locks.ts';

export interface S3StoreOptions {
  /** The address of the store for the manager. */
  readonly endpoint: string;
  /** The address of the store for users. */
  readonly publicEndpoint: string;
  readonly region: string;
  readonly verify: boolean;
  /** The owner name of the buckets of the administrator. */
  readonly managerName: string;
  /** The staging bucket, which belongs to the manager. */
  readonly stagingBucket?: string;
  /** The lease of a lock, in milliseconds: how long others wait for a manager that died while it held one. */
  readonly lease?: number;
  /** Called with the cause and a message for problems of background work that the operator should know. */
  readonly report?: (problem: unknown, what: string) => void;
}

export interface S3StoreParts {
  readonly requests: SignedHttpClient;
  readonly account: S3Account;
  /** The event targets of the store. The parameter tests whether the store accepts a target. */
  readonly targets: (takes: (arn: string) => Promise<boolean>) => EventTargetCache;
}

/** The buckets of a store with their owners and visibility. */
interface BucketRegistry {
  create(bucket: NewBucket): Promise<'created' | { readonly exists: Bucket }>;
  find(name: string): Promise<Bucket | undefined>;
  list(query: BucketQuery): Promise<Page<Bucket>>;
  change(name: string, change: BucketChange): Promise<void>;
  remove(name: string): Promise<void>;
}

/** An external object store: everything that needs S3 and STS only. */
export abstract class S3Store implements ObjectStore {
  protected readonly s3: S3Api;
  protected readonly locks: StoreLocks;
  protected readonly targets: EventTargetCache;
  protected readonly report: NonNullable<S3StoreOptions['report']>;
  readonly #rules: EventRules;
  readonly #options: S3StoreOptions;
  readonly #requests: SignedHttpClient;
  readonly #account: S3Account;
  #staging: Promise<void> | undefined;

  protected constructor(options: S3StoreOptions, { requests, account, targets }: S3StoreParts) {
    this.#options = options;
    this.#requests = requests;
    this.#account = account;
    this.s3 = new S3Api({ requests, account, staging: options.stagingBucket ?? STAGING_BUCKET });
    this.report = options.report ?? (() => undefined);
    const ready = async () => {
      await account.whenLoaded?.();
      await this.ensureStaging();
    };
    this.locks = new StoreLocks(this.s3, ready, options);
    this.targets = targets((arn) => this.#acceptsTarget(arn));
    this.#rules = new EventRules({
      s3: this.s3,
      locks: this.locks,
      targets: this.targets,
      report: this.report,
    });
  }

  abstract putUser(uid: string, keys: StoreKeys): Promise<void>;

  /** Each kind of store keeps owners and visibility in its own way. */
  protected abstract readonly bucketRegistry: BucketRegistry;

  createBucket(bucket: NewBucket): Promise<'created' | { readonly exists: Bucket }> {
    return this.bucketRegistry.create(bucket);
  }

  bucket(name: string): Promise<Bucket | undefined> {
    return this.bucketRegistry.find(name);
  }

  buckets(query: BucketQuery): Promise<Page<Bucket>> {
    return this.bucketRegistry.list(query);
  }

  changeBucket(name: string, change: BucketChange): Promise<void> {
    return this.bucketRegistry.change(name, change);
  }

  removeBucket(name: string): Promise<void> {
    return this.bucketRegistry.remove(name);
  }

  /** False for a store that is so old that it ignores conditional writes: then only one manager may use it. */
  supportsSeveralManagers(): Promise<boolean> {
    return this.locks.excludeOtherManagers();
  }

  /** The time of the store in milliseconds, exact to a second. */
  async time(): Promise<number> {
    await this.ensureStaging();
    const { headers } = await this.s3.send({ method: 'HEAD', path: `/${this.stagingBucket}` });
    return Date.parse(headers.date ?? '');
  }

  close(): void {
    this.#requests.close();
  }

  async ensureFolder(bucket: string, folder: string): Promise<void> {
    const at = { bucket, key: `${folder}/` };
    if (!(await this.s3.head(at))) await this.s3.put(at, '', { 'content-type': 'application/x-directory' });
  }

  async objects(bucket: string, { prefix = '', cursor, limit }: ObjectQuery): Promise<Page<StoredObject>> {
    const after = cursor === undefined ? undefined : decodeCursor(cursor);
    const page = await this.s3.list(bucket, prefix, limit, after);
    if (!page) throw new StoreError('absent', `there is no bucket "${bucket}"`);
    const last = page.objects.at(-1);
    return { items: page.objects, ...(page.more && last && { next: encodeCursor(last.key) }) };
  }

  subscribe(subscription: Subscription): Promise<void> {
    return this.#rules.add(subscription);
  }

  unsubscribe(subscription: Subscription): Promise<void> {
    return this.#rules.remove(subscription);
  }

  get stagingBucket(): string {
    return this.s3.staging;
  }

  ensureStaging(): Promise<void> {
    this.#staging ??= ensureStagingBucket(this.s3).catch((error: unknown) => {
      this.#staging = undefined;
      throw error;
    });
    return this.#staging;
  }

  async read(bucket: string, key: string, mostBytes: number): Promise<Uint8Array | undefined> {
    return (await this.s3.read({ bucket, key }, mostBytes))?.body;
  }

  /** Written by the manager's account, whatever the owner: the store attributes an object to the account that signs. */
  place(from: PlaceFrom, to: ObjectName, by: PlacedBy): Promise<Placed> {
    const settled = async () => this.#account.whenLoaded?.();
    return place(from, to, by, { s3: this.s3, locks: this.locks, settled });
  }

  async labels(at: ObjectName): Promise<OutputLabels | undefined> {
    const found = await this.s3.head(at);
    return found && { attempt: found.metadata['oscar-attempt'], inputLabel: found.metadata['oscar-input'] };
  }

  removeObjects(bucket: string, prefix: string): Promise<void> {
    return removeObjectsUnder(bucket, prefix, this.s3);
  }

  /** Signed by the manager's account. */
  async presign(request: PresignRequest): Promise<string> {
    return this.#account.withKeys(async (keys) => this.presignWith(keys, request));
  }

  protected presignWith({ accessKey, secretKey }: StoreKeys, request: PresignRequest): string {
    const { method, bucket, key, expiresIn, headers, inside, responseContentType, query } = request;
    return presignUrl({
      method,
      bucket,
      key,
      endpoint: inside ? this.#options.endpoint : this.#options.publicEndpoint,
      region: this.#options.region,
      accessKey: accessKey.reveal(),
      secret: new SigningSecret(secretKey.reveal()),
      now: Date.now(),
      expires: expiresIn,
      ...(headers && { headers }),
      query: { ...query, ...(responseContentType && { 'response-content-type': responseContentType }) },
    });
  }

  /** The events of what is written with these keys name the manager's account, for the same reason as in `place`. */
  issue(scope: KeyScope, ttlSeconds: number): Promise<IssuedKeys> {
    return requestSession(scope, ttlSeconds, this.s3);
  }

  /** Session keys cannot be revoked: they expire. */
  async revoke(): Promise<void> {
    return undefined;
  }

  async revokeFor(): Promise<void> {
    return undefined;
  }

  /** Tested with a rule in the staging bucket, for a prefix to which nothing is ever written. */
  async #acceptsTarget(arn: string): Promise<boolean> {
    await this.ensureStaging();
    return this.#rules.accepts(arn, { bucket: this.stagingBucket, prefix: '.probe/', subscriber: 'probe' });
  }
}

const encodeCursor = (after: string) => Buffer.from(after).toString('base64url') as Cursor;

function decodeCursor(cursor: Cursor): string {
  const text = Buffer.from(cursor, 'base64url').toString();
  if (text === '' || encodeCursor(text) !== cursor)
    throw new StoreError('expired', 'the cursor is not valid: list again from the beginning');
  return text;
}
