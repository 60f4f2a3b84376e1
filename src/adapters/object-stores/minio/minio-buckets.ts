import { Slots } from '../../../lib/concurrency.ts';
import type { Cursor, Page } from '../../../lib/version.ts';
import { type Bucket, type BucketChange, type BucketQuery, type NewBucket, StoreError } from '../../../ports/index.ts';
import {
  bucketLockName,
  describeHalfMadeBucket,
  describePermanentFailure,
  isMadeByGoManager,
  isReservedBucket,
  matchesBucketQuery,
  parseBucketTags,
  type S3Api,
  ServiceBucketIndex,
  type StoreLock,
  type StoreLocks,
  toBucketTags,
} from '../s3/index.ts';
import type { BucketUsage, MinioAdmin } from './admin-api.ts';
import type { BucketAccess } from './bucket-access.ts';
import type { BucketPolicies } from './bucket-policies.ts';

export interface MinioBucketsOptions {
  readonly s3: S3Api;
  readonly admin: MinioAdmin;
  readonly locks: StoreLocks;
  readonly grants: BucketAccess;
  readonly policies: BucketPolicies;
  readonly managerName: string;
  /** Called if a bucket could neither be created completely nor removed. */
  readonly report: (problem: unknown, what: string) => void;
}

/** Buckets in a page: each takes several requests. */
const PAGE = 100;
const AT_ONCE = new Slots(16);

/** Smaller buckets are counted now; for larger ones the count of the store is used, which is minutes old. */
const COUNTED = 1_000;

/** What is read once for all buckets of a page. */
interface Counted {
  readonly usage: ReadonlyMap<string, BucketUsage>;
  readonly everybodys: ReadonlySet<string>;
}

/**
 * Buckets with their owners in tags and their permissions in policies. A bucket is created under a lock whose note describes
 * it, and gets its tags last: a manager that finds a bucket without tags finds the lock too, and completes the bucket.
 */
export class MinioBuckets {
  readonly #options: MinioBucketsOptions;
  readonly #madeFor: ServiceBucketIndex;

  constructor(options: MinioBucketsOptions) {
    this.#options = options;
    this.#madeFor = new ServiceBucketIndex(options.s3);
  }

  async create(bucket: NewBucket): Promise<'created' | { readonly exists: Bucket }> {
    const { name } = bucket;
    const { s3 } = this.#options;
    return this.#withBucketLock(name, async (held) => {
      const exists = await this.#describe(name);
      if (exists) return { exists };
      // Written first, so that removing the service finds the bucket even if this manager dies here.
      if (bucket.madeFor) await this.#madeFor.add(name, bucket.madeFor.uid);
      await held.setNote(JSON.stringify(bucket));
      // The bucket did not exist under this lock: if the store says that it exists, an earlier response was lost.
      const made = await s3.makeBucket(name).catch(async (error: unknown) => {
        // After any other error it may have been created.
        if (describePermanentFailure(error) !== undefined) await held.setNote('');
        throw error;
      });
      const foreign = made ? undefined : await s3.tags(name);
      if (foreign) {
        if (bucket.madeFor) await this.#madeFor.remove(name, bucket.madeFor.uid);
        return { exists: (await this.#describe(name)) ?? toEmptyBucket(bucket) };
      }
      await this.#setUpOrRemove(bucket, held);
      return 'created';
    });
  }

  async find(name: string, counted?: Counted): Promise<Bucket | undefined> {
    if (isReservedBucket(name)) return undefined;
    const found = await this.#readBucket(name, counted);
    if (!found || found.finished || !(await this.#options.locks.isHeld(bucketLockName(name)))) return found?.bucket;
    // Another manager is creating it, or died while it did.
    return this.#withBucketLock(name, () => this.#describe(name));
  }

  /** Reads usage and public buckets once for the whole page; the usage is then minutes old. */
  async list(query: BucketQuery): Promise<Page<Bucket>> {
    const { admin, policies } = this.#options;
    const { cursor = '' } = query;
    const [names, usage, everybodys] = await Promise.all([
      this.#listNames(query),
      admin.usage(),
      policies.listPublic(),
    ]);
    const later = names.filter((name) => name > cursor && !isReservedBucket(name)).toSorted();
    const page = later.slice(0, PAGE);
    const found = await Promise.all(page.map((name) => AT_ONCE.use(() => this.find(name, { usage, everybodys }))));
    const last = page.at(-1);
    return {
      items: found.filter((bucket) => bucket !== undefined).filter((bucket) => matchesBucketQuery(bucket, query)),
      ...(later.length > PAGE && last !== undefined && { next: last as Cursor }),
    };
  }

  async change(name: string, change: BucketChange): Promise<void> {
    const { s3, admin, grants, managerName } = this.#options;
    const { madeFor, visibility, allowedUsers, quota } = change;
    await this.#withBucketLock(name, async () => {
      const before = await this.#describe(name);
      if (!before) throw new StoreError('absent', `there is no bucket "${name}"`);
      if (quota !== undefined) await admin.setQuota(name, quota);
      if (visibility || allowedUsers) {
        await grants.apply({ ...before, ...(visibility && { visibility }), ...(allowedUsers && { allowedUsers }) });
      }
      if (madeFor === undefined) return;
      const { madeFor: old, ...rest } = before;
      if (madeFor) await this.#madeFor.add(name, madeFor.uid);
      await s3.setTags(name, toBucketTags({ ...rest, ...(madeFor && { madeFor }) }, managerName));
      if (old && old.uid !== madeFor?.uid) await this.#madeFor.remove(name, old.uid);
    });
  }

  /** Adopts a bucket that a Go manager created for a service, if it belongs to one of these owners. */
  async adopt(name: string, owners: readonly string[], madeFor: NonNullable<NewBucket['madeFor']>): Promise<boolean> {
    const { s3, managerName } = this.#options;
    const findTags = async () => {
      const tags = await s3.tags(name);
      if (!tags || !isMadeByGoManager(tags, madeFor.service)) return undefined;
      const tagged = parseBucketTags(tags, managerName);
      return owners.includes(tagged.owner)
        ? { ...tags, ...toBucketTags({ ...tagged, madeFor }, managerName) }
        : undefined;
    };
    // Usually there is nothing to adopt, and then no lock is needed.
    if (!(await findTags())) return false;
    return this.#withBucketLock(name, async () => {
      const tags = await findTags();
      if (!tags) return false;
      await this.#madeFor.add(name, madeFor.uid);
      await s3.setTags(name, tags);
      return true;
    });
  }

  /** Revokes the permissions first, so that no user has any in a later bucket of the same name. */
  async remove(name: string): Promise<void> {
    const { s3, grants } = this.#options;
    await this.#withBucketLock(name, async () => {
      const found = await this.#describe(name);
      await grants.revokeAll(name);
      await s3.removeBucket(name);
      if (found?.madeFor) await this.#madeFor.remove(name, found.madeFor.uid);
    });
  }

  /** Runs the work under the lock of the bucket. First completes what a manager that died had begun. */
  #withBucketLock<T>(name: string, work: (held: StoreLock) => Promise<T>): Promise<T> {
    return this.#options.locks.withLock(bucketLockName(name), async (held) => {
      if (held.unfinished !== undefined) await this.#finish(JSON.parse(held.unfinished) as NewBucket, held);
      return work(held);
    });
  }

  async #finish(bucket: NewBucket, held: StoreLock): Promise<void> {
    const found = await this.#readBucket(bucket.name);
    // A bucket that cannot be completed has been removed, and its caller is gone: the reason is dropped.
    if (found && !found.finished) await this.#setUpOrRemove(bucket, held).catch(throwUnless('conflict', 'too-large'));
    await held.setNote('');
  }

  /** Removes a bucket that cannot be completed. If that fails too, the next caller tries again. */
  async #setUpOrRemove(bucket: NewBucket, held: StoreLock): Promise<void> {
    try {
      await this.#setUp(bucket);
    } catch (error) {
      const { s3, grants } = this.#options;
      try {
        await grants.revokeAll(bucket.name);
        await s3.removeBucket(bucket.name);
        if (bucket.madeFor) await this.#madeFor.remove(bucket.name, bucket.madeFor.uid);
        await held.setNote('');
      } catch (problem) {
        this.#options.report(problem, describeHalfMadeBucket(bucket.name));
        throw new StoreError('unavailable', describeHalfMadeBucket(bucket.name), { cause: error });
      }
      throw error;
    }
  }

  async #setUp(bucket: NewBucket): Promise<void> {
    const { s3, grants, policies, managerName } = this.#options;
    await policies.clear(bucket.name);
    await grants.apply(bucket);
    await s3.setTags(bucket.name, toBucketTags(bucket, managerName));
  }

  async #describe(name: string): Promise<Bucket | undefined> {
    return (await this.#readBucket(name))?.bucket;
  }

  async #readBucket(name: string, counted?: Counted): Promise<{ bucket: Bucket; finished: boolean } | undefined> {
    const { s3, admin, grants, managerName } = this.#options;
    const [tags, usage, reach, quota] = await Promise.all([
      s3.tags(name),
      counted?.usage.get(name) ?? this.#usage(name),
      grants.read(name, counted?.everybodys),
      admin.quota(name),
    ]);
    if (!usage) return undefined;
    const bucket = {
      name,
      ...parseBucketTags(tags ?? {}, managerName),
      ...reach,
      usage,
      ...(quota !== undefined && { quota }),
    };
    return { bucket, finished: tags !== undefined };
  }

  /** Undefined if there is no such bucket. */
  async #usage(name: string): Promise<BucketUsage | undefined> {
    const { s3, admin } = this.#options;
    const page = await s3.list(name, '', COUNTED);
    if (!page) return undefined;
    const counted = { bytes: page.objects.reduce((sum, { bytes }) => sum + bytes, 0), objects: page.objects.length };
    return page.more ? ((await admin.usage()).get(name) ?? counted) : counted;
  }

  /** Names of buckets that exist, or did a moment ago. */
  async #listNames({ visibleTo, madeFor }: BucketQuery): Promise<string[]> {
    const { s3, grants } = this.#options;
    const wanted =
      madeFor !== undefined ? this.#madeFor.list(madeFor) : visibleTo !== undefined && grants.listReachable(visibleTo);
    const [there, some] = await Promise.all([s3.bucketNames(), wanted]);
    if (!some) return there;
    const those = new Set(some);
    const found = there.filter((name) => those.delete(name));
    if (madeFor !== undefined) await this.#forgetGone(those, madeFor);
    return found;
  }

  /** Removes index entries of buckets that a manager removed before it died. */
  async #forgetGone(names: Iterable<string>, uid: string): Promise<void> {
    for (const name of names) {
      await this.#withBucketLock(name, async () => {
        if (!(await this.#describe(name))) await this.#madeFor.remove(name, uid);
      });
    }
  }
}

function throwUnless(...codes: readonly string[]): (error: unknown) => void {
  return (error) => {
    if (!(error instanceof StoreError && codes.includes(error.code))) throw error;
  };
}

const toEmptyBucket = (bucket: NewBucket): Bucket => ({ ...bucket, usage: { bytes: 0, objects: 0 } });
