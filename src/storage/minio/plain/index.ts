import { StoreError } from '../../../cluster/index.ts';
import { type ObjectName, STAGING_BUCKET, type StoreKeys, type Subscription } from '../../object-store.ts';
import { S3Store, type S3StoreOptions } from '../s3-store.ts';
import { Refusal } from '../wire/refusal.ts';
import { Requests } from '../wire/requests.ts';
import { RecordedBuckets } from './buckets.ts';

export interface PlainStoreOptions extends S3StoreOptions {
  /** With which the manager does everything. */
  readonly keys: StoreKeys;
  /** What the store calls the places that report to this manager. */
  readonly targets: readonly string[];
}

const NO_USER_KEYS =
  'the object store of this cluster has no users of its own: reach your buckets by presigned addresses, which the ' +
  'manager gives (POST /system/buckets/<bucket>/presign)';

/** What nobody has: only whether such a session is given at all is asked. */
const PROBE: ObjectName = { bucket: STAGING_BUCKET, key: '.probe' };

/** The shortest session that stores give. */
const SHORTEST_SECONDS = 900;

/**
 * A store that has S3 and, if it comes to that, STS, and no way to make users: the manager does everything with the keys
 * that its operator gave it, and who reaches what is decided by the manager alone.
 */
export class PlainStore extends S3Store {
  readonly noUserKeys = NO_USER_KEYS;
  protected readonly kept: RecordedBuckets;
  readonly #given: readonly string[];
  /** Those of the targets that the store takes; undefined until that was tried. */
  #taken: Promise<ReadonlyMap<string, string>> | undefined;
  #noJobKeys: Promise<string | undefined> | undefined;

  constructor(options: PlainStoreOptions) {
    const { keys, targets, managerName } = options;
    const account = { use: <T>(work: (keys: StoreKeys) => Promise<T>) => work(keys) };
    super(options, { requests: new Requests(options), account, targets: () => this.#targets() });
    this.#given = targets;
    this.kept = new RecordedBuckets({ s3: this.s3, claims: this.claims, managerName });
  }

  /** Of the targets that were named, those that the store refuses. */
  async missingTargets(): Promise<string[]> {
    const taken = await this.#targets();
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
    if ((await this.#targets()).size > 0) await super.subscribe(subscription);
  }

  override async unsubscribe(subscription: Subscription): Promise<void> {
    if ((await this.#targets()).size > 0) await super.unsubscribe(subscription);
  }

  async #tryKeys(): Promise<string | undefined> {
    try {
      await this.issue({ read: [PROBE], write: [] }, SHORTEST_SECONDS);
      return undefined;
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return `the object store of this cluster gives no keys for single jobs (STS AssumeRole: ${error.status} ${error.reason})`;
    }
  }

  #targets(): Promise<ReadonlyMap<string, string>> {
    this.#taken ??= this.#tryTargets().catch((error: unknown) => {
      this.#taken = undefined;
      throw error;
    });
    return this.#taken;
  }

  /** Each is tried on the manager's own bucket, where nothing is ever put that it would report. */
  async #tryTargets(): Promise<ReadonlyMap<string, string>> {
    const taken = new Map<string, string>();
    if (this.#given.length > 0) await this.ensureStaging();
    for (const arn of this.#given) {
      if (await this.rules.takes(arn, { bucket: STAGING_BUCKET, prefix: '.probe/', subscriber: 'probe' })) {
        taken.set(arn, arn);
      }
    }
    return taken;
  }
}
