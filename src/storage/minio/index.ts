import { type Cursor, type Page, StoreError } from '../../cluster/index.ts';
import { presignUrl, SigningSecret } from '../../objectstore/index.ts';
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
  type Placed,
  type PlacedBy,
  type PlaceFrom,
  type PresignRequest,
  STAGING_BUCKET,
  type StoredObject,
  type StoreKeys,
  type Subscription,
} from '../object-store.ts';
import { Buckets } from './buckets.ts';
import { Claims } from './claims.ts';
import { Grants } from './grants.ts';
import { assumeRole } from './job-keys.ts';
import { place } from './place.ts';
import { Policies } from './policies.ts';
import { Rules, TARGETS, type Target } from './rules.ts';
import { makeStaging, removeUnder } from './staging.ts';
import { StoreAccount } from './store-account.ts';
import { Users } from './users.ts';
import { Admin } from './wire/admin.ts';
import { Requests } from './wire/requests.ts';
import { S3 } from './wire/s3.ts';

export { ACCOUNT } from './store-account.ts';

export interface MinioStoreOptions {
  /** As the manager reaches it. */
  readonly endpoint: string;
  /** As its users do. */
  readonly publicEndpoint: string;
  readonly region: string;
  readonly verify: boolean;
  /** Of an administrator of the store. */
  readonly keys: StoreKeys;
  /** Owner of the buckets of the administrator. */
  readonly managerName: string;
  /** The keys of a user, if they have any. */
  readonly keysOf?: (uid: string) => Promise<StoreKeys | undefined>;
  /** How long others wait for a manager that died over a change, in milliseconds. */
  readonly lease?: number;
}

/** A MinIO that stands elsewhere: S3 for data, its admin API for users and rights, STS for the keys of jobs. */
export class MinioStore implements ObjectStore {
  readonly #options: MinioStoreOptions;
  readonly #requests: Requests;
  readonly #account: StoreAccount;
  readonly #s3: S3;
  readonly #claims: Claims;
  readonly #users: Users;
  readonly #buckets: Buckets;
  readonly #rules: Rules;
  #staging: Promise<void> | undefined;

  constructor(options: MinioStoreOptions) {
    const { keys, managerName } = options;
    this.#options = options;
    this.#requests = new Requests(options);
    const admin = new Admin({ requests: this.#requests, keys });
    this.#account = new StoreAccount(admin, keys);
    const s3 = new S3({ requests: this.#requests, account: this.#account });
    const claims = new Claims(s3, () => this.ensureStaging(), options.lease);
    const policies = new Policies(admin, claims);
    const users = new Users(admin, claims, keys);
    const grants = new Grants({ admin, claims, policies, users });
    this.#s3 = s3;
    this.#claims = claims;
    this.#users = users;
    this.#buckets = new Buckets({ s3, admin, claims, grants, policies, managerName });
    this.#rules = new Rules(s3, admin, claims);
  }

  /** Of the places that events are to be sent to, those that the store does not have. */
  async missingTargets(): Promise<Target[]> {
    const there = await this.#rules.targets();
    return TARGETS.filter((target) => !there.has(target));
  }

  /** May several managers use it? Not if it is so old that it does not look at the conditions of a write. */
  takesSeveralManagers(): Promise<boolean> {
    return this.#claims.areGood();
  }

  /** By the clock of the store, in milliseconds; it tells whole seconds. */
  async time(): Promise<number> {
    await this.ensureStaging();
    const { headers } = await this.#s3.send({ method: 'HEAD', path: `/${STAGING_BUCKET}` });
    return Date.parse(headers.date ?? '');
  }

  close(): void {
    this.#requests.close();
  }

  async putUser(_uid: string, keys: StoreKeys): Promise<void> {
    await this.#users.put(keys);
  }

  createBucket(bucket: NewBucket): Promise<'created' | { readonly exists: Bucket }> {
    return this.#buckets.create(bucket);
  }

  bucket(name: string): Promise<Bucket | undefined> {
    return this.#buckets.find(name);
  }

  buckets(query: BucketQuery): Promise<Page<Bucket>> {
    return this.#buckets.list(query);
  }

  changeBucket(name: string, change: BucketChange): Promise<void> {
    return this.#buckets.change(name, change);
  }

  removeBucket(name: string): Promise<void> {
    return this.#buckets.remove(name);
  }

  async ensureFolder(bucket: string, folder: string): Promise<void> {
    const at = { bucket, key: `${folder}/` };
    if (!(await this.#s3.head(at))) await this.#s3.put(at, '', { 'content-type': 'application/x-directory' });
  }

  async objects(bucket: string, { prefix = '', cursor, limit }: ObjectQuery): Promise<Page<StoredObject>> {
    const after = cursor === undefined ? undefined : decodeCursor(cursor);
    const page = await this.#s3.list(bucket, prefix, limit, after);
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

  ensureStaging(): Promise<void> {
    this.#staging ??= makeStaging(this.#s3).catch((error: unknown) => {
      this.#staging = undefined;
      throw error;
    });
    return this.#staging;
  }

  async read(bucket: string, key: string, mostBytes: number): Promise<Uint8Array | undefined> {
    return (await this.#s3.read({ bucket, key }, mostBytes))?.body;
  }

  /** In the name of the manager's account, whoever it is for: the store writes in the name of whoever signs. */
  place(from: PlaceFrom, to: ObjectName, by: PlacedBy): Promise<Placed> {
    return place(from, to, by, { s3: this.#s3, claims: this.#claims });
  }

  removeObjects(bucket: string, prefix: string): Promise<void> {
    return removeUnder(bucket, prefix, this.#s3);
  }

  async presign({ method, bucket, key, expiresIn, as, headers, responseContentType }: PresignRequest): Promise<string> {
    const theirs = as === undefined ? undefined : await this.#options.keysOf?.(as);
    if (theirs) await this.#users.put(theirs);
    const sign = async ({ accessKey, secretKey }: StoreKeys) =>
      presignUrl({
        method,
        bucket,
        key,
        endpoint: this.#options.publicEndpoint,
        region: this.#options.region,
        accessKey: accessKey.reveal(),
        secret: new SigningSecret(secretKey.reveal()),
        now: Date.now(),
        expires: expiresIn,
        ...(headers && { headers }),
        ...(responseContentType && { query: { 'response-content-type': responseContentType } }),
      });
    return theirs ? sign(theirs) : this.#account.use(sign);
  }

  /** What is written with them is reported as the manager's, for the same reason as what it places. */
  issue(scope: KeyScope, ttlSeconds: number): Promise<IssuedKeys> {
    return assumeRole(scope, ttlSeconds, this.#s3);
  }

  /** They end by themselves. */
  async revoke(): Promise<void> {
    return undefined;
  }
}

const encodeCursor = (after: string) => Buffer.from(after).toString('base64url') as Cursor;

function decodeCursor(cursor: Cursor): string {
  const text = Buffer.from(cursor, 'base64url').toString();
  if (text === '' || encodeCursor(text) !== cursor)
    throw new StoreError('expired', 'the page is not one that was given out: begin again');
  return text;
}
