import { StoreError, type StoreKeys, type Subscription } from '../../../ports/index.ts';
import { EventTargetCache } from './event-rules.ts';
import { RecordedBuckets } from './recorded-buckets.ts';
import { S3Store, type S3StoreOptions } from './s3-store.ts';
import { SignedHttpClient, StoreResponseError } from './signed-http-client.ts';

export interface PlainS3StoreOptions extends S3StoreOptions {
  /** The keys that the manager uses for everything. */
  readonly keys: StoreKeys;
  /** ARNs of the event targets that report to this manager. */
  readonly targets: readonly string[];
}

const NO_USER_KEYS =
  'the object store of this cluster has no users of its own: reach your buckets by presigned addresses, which the ' +
  'manager gives (POST /system/buckets/<bucket>/presign)';

/** An object that does not exist: only whether the store issues such session keys matters. */
const PROBE = '.probe';

/** How long the accepted targets are cached. A shorter time writes test rules more often; a longer one notices changes later. */
const BELIEVED_MS = 10 * 60_000;

/** The shortest session that stores issue. */
const SHORTEST_SECONDS = 900;

/**
 * A store that has S3, perhaps STS, and no users. The manager does everything with the keys of the operator, and decides
 * alone who may access what.
 */
export class PlainS3Store extends S3Store {
  readonly noUserKeys = NO_USER_KEYS;
  protected readonly bucketRegistry: RecordedBuckets;
  readonly #given: readonly string[];
  #noJobKeys: Promise<string | undefined> | undefined;

  constructor(options: PlainS3StoreOptions) {
    const { keys, targets, managerName } = options;
    const account = { withKeys: <T>(work: (keys: StoreKeys) => Promise<T>) => work(keys) };
    const requests = new SignedHttpClient(options);
    super(options, { requests, account, targets: (takes) => createTargetCache(targets, takes) });
    this.#given = targets;
    this.bucketRegistry = new RecordedBuckets({ s3: this.s3, locks: this.locks, managerName, report: this.report });
  }

  /** The configured targets that the store rejects. */
  async missingTargets(): Promise<string[]> {
    const taken = await this.targets.get();
    return this.#given.filter((arn) => !taken.has(arn));
  }

  /** Tested once, and again only if the store did not answer. */
  noJobKeys(): Promise<string | undefined> {
    this.#noJobKeys ??= this.#tryKeys().catch((error: unknown) => {
      this.#noJobKeys = undefined;
      throw error;
    });
    return this.#noJobKeys;
  }

  async putUser(uid: string): Promise<void> {
    throw new StoreError('conflict', `there are no keys for "${uid}": ${NO_USER_KEYS}`);
  }

  /** Without targets the store is not asked: it may not support notifications at all. */
  override async subscribe(subscription: Subscription): Promise<void> {
    if ((await this.targets.get()).size > 0) await super.subscribe(subscription);
  }

  override async unsubscribe(subscription: Subscription): Promise<void> {
    if ((await this.targets.get()).size > 0) await super.unsubscribe(subscription);
  }

  async #tryKeys(): Promise<string | undefined> {
    try {
      await this.issue({ read: [{ bucket: this.stagingBucket, key: PROBE }], write: [] }, SHORTEST_SECONDS);
      return undefined;
    } catch (error) {
      if (!(error instanceof StoreResponseError)) throw error;
      return `the object store of this cluster gives no keys for single jobs (STS AssumeRole: ${error.status} ${error.errorCode})`;
    }
  }
}

/** The targets that the store accepts. The only way to find out is to write a rule. */
const createTargetCache = (given: readonly string[], takes: (arn: string) => Promise<boolean>) =>
  new EventTargetCache(async () => {
    const taken = new Map<string, string>();
    for (const arn of given) if (await takes(arn)) taken.set(arn, arn);
    return taken;
  }, BELIEVED_MS);
