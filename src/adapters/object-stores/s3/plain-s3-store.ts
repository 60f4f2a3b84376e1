import { StoreError, type StoreKeys, type Subscription } from '../../../ports/index.ts';
import { EventTargetCache } from './event-rules.ts';
import { RecordedBuckets } from './recorded-buckets.ts';
import { S3Store, type S3StoreOptions } from './s3-store.ts';
import { SignedHttpClient, StoreResponseError } from './signed-http-client.ts';

export interface PlainS3StoreOptions extends S3StoreOptions {
  /** With which the manager does everything. */
  readonly keys: StoreKeys;
  /** What the store calls the places that report to this manager. */
  readonly targets: readonly string[];
}

const NO_USER_KEYS =
  'the object store of this cluster has no users of its own: reach your buckets by presigned addresses, which the ' +
  'manager gives (POST /system/buckets/<bucket>/presign)';

/** What nobody has: only whether such a session is given at all is asked. */
const PROBE = '.probe';

/** How long it is believed which targets the store takes. Shorter: rules are written more often only to see that. */
const BELIEVED_MS = 10 * 60_000;

/** The shortest session that stores give. */
const SHORTEST_SECONDS = 900;

/**
 * A store that has S3 and, if it comes to that, STS, and no way to make users: the manager does everything with the keys
 * that its operator gave it, and who reaches what is decided by the manager alone.
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

  /** Of the targets that were named, those that the store refuses. */
  async missingTargets(): Promise<string[]> {
    const taken = await this.targets.get();
    return this.#given.filter((arn) => !taken.has(arn));
  }

  /** Asked once; a store that does not answer is asked again. */
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

  /** A store that is told nothing about events may not know the question either. */
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

/** Those of the targets that the store takes: it can only be tried. */
const createTargetCache = (given: readonly string[], takes: (arn: string) => Promise<boolean>) =>
  new EventTargetCache(async () => {
    const taken = new Map<string, string>();
    for (const arn of given) if (await takes(arn)) taken.set(arn, arn);
    return taken;
  }, BELIEVED_MS);
