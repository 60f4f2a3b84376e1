import { Slots } from '../../../lib/concurrency.ts';
import type { Cursor, Page } from '../../../lib/version.ts';
import { CLUSTER_ADMIN } from '../../../model/service/index.ts';
import { type Bucket, type BucketChange, type BucketQuery, type NewBucket, StoreError } from '../../../ports/index.ts';
import {
  bucketLockName,
  describeHalfMadeBucket,
  isReservedBucket,
  matchesBucketQuery,
  ServiceBucketIndex,
} from './bucket-metadata.ts';
import type { S3Api } from './s3-api.ts';
import { describePermanentFailure, hasErrorCode } from './signed-http-client.ts';
import { removeObjectsUnder } from './staging-bucket.ts';
import type { StoreLock, StoreLocks } from './store-locks.ts';

export interface RecordedBucketsOptions {
  readonly s3: S3Api;
  readonly locks: StoreLocks;
  readonly managerName: string;
  readonly report: (problem: unknown, what: string) => void;
}

/** Buckets in a page: each takes several requests. */
const PAGE = 100;
const AT_ONCE = new Slots(16);

/** At most this many objects of a bucket are counted: the store has no count of its own. */
const COUNTED = 1_000;

/** The limit of a record: enough to share a bucket with about ten thousand users. */
const MOST_BYTES = 1024 * 1024;

const RECORDS = '.buckets/';

/** How often a bucket is emptied while clients keep writing to it. */
const EMPTYINGS = 5;

/**
 * Buckets of a store without owners: the facts about each bucket are a record in the staging bucket. A bucket without a
 * record belongs to the operator of the store. A bucket is created under a lock whose note describes it, and its record is
 * written last: a manager that finds a bucket without a record finds the lock too, and completes the bucket.
 */
export class RecordedBuckets {
  readonly #options: RecordedBucketsOptions;
  readonly #madeFor: ServiceBucketIndex;

  constructor(options: RecordedBucketsOptions) {
    this.#options = options;
    this.#madeFor = new ServiceBucketIndex(options.s3);
  }

  create(bucket: NewBucket): Promise<'created' | { readonly exists: Bucket }> {
    const { name } = bucket;
    return this.#withBucketLock(name, async (held) => {
      const exists = await this.#describe(name);
      if (exists) return { exists };
      await held.setNote(JSON.stringify(bucket));
      await this.#makeOrUndo(bucket, held);
      return 'created';
    });
  }

  async find(name: string): Promise<Bucket | undefined> {
    if (isReservedBucket(name)) return undefined;
    const found = await this.#readRecord(name);
    const { locks } = this.#options;
    // Another manager is creating it, or died while it did.
    if (!found && (await locks.isHeld(bucketLockName(name))))
      return this.#withBucketLock(name, () => this.#describe(name));
    return this.#describe(name, found);
  }

  /** Checks the owners first, because counting objects is slow. */
  async list(query: BucketQuery): Promise<Page<Bucket>> {
    const { cursor = '' } = query;
    const later = (await this.#listNames(query)).filter((name) => name > cursor && !isReservedBucket(name)).toSorted();
    const page = later.slice(0, PAGE);
    const found = await Promise.all(
      page.map((name) =>
        AT_ONCE.use(async () => {
          const record = (await this.#readRecord(name)) ?? this.#operatorBucket(name);
          return matchesBucketQuery(record, query) ? this.find(name) : undefined;
        }),
      ),
    );
    const last = page.at(-1);
    return {
      items: found.filter((bucket) => bucket !== undefined),
      ...(later.length > PAGE && last !== undefined && { next: last as Cursor }),
    };
  }

  async change(name: string, { madeFor, visibility, allowedUsers, quota }: BucketChange): Promise<void> {
    if (quota !== undefined) {
      throw new StoreError('conflict', `the object store of this cluster cannot limit what the bucket "${name}" holds`);
    }
    await this.#withBucketLock(name, async () => {
      const before = await this.#describe(name);
      if (!before) throw new StoreError('absent', `there is no bucket "${name}"`);
      const { usage: _, madeFor: old, ...rest } = before;
      const kept = madeFor === undefined ? old : (madeFor ?? undefined);
      if (kept) await this.#madeFor.add(name, kept.uid);
      await this.#writeRecord({
        ...rest,
        ...(visibility && { visibility }),
        ...(allowedUsers && { allowedUsers }),
        ...(kept && { madeFor: kept }),
      });
      if (old && old.uid !== kept?.uid) await this.#madeFor.remove(name, old.uid);
    });
  }

  /** Removes the record last: until then the name is not free. */
  async remove(name: string): Promise<void> {
    const { s3 } = this.#options;
    await this.#withBucketLock(name, async () => {
      const record = await this.#readRecord(name);
      await this.#removeWithContent(name);
      if (record?.madeFor) await this.#madeFor.remove(name, record.madeFor.uid);
      await s3.remove(recordObject(name, s3));
    });
  }

  async #removeWithContent(name: string): Promise<void> {
    const { s3 } = this.#options;
    for (let tries = 1; ; tries++) {
      await removeObjectsUnder(name, '', s3);
      try {
        return await s3.removeEmptyBucket(name);
      } catch (error) {
        if (tries === EMPTYINGS || !hasErrorCode(error, 'BucketNotEmpty')) throw error;
      }
    }
  }

  /** Runs the work under the lock of the bucket. First completes what a manager that died had begun. */
  #withBucketLock<T>(name: string, work: (held: StoreLock) => Promise<T>): Promise<T> {
    return this.#options.locks.withLock(bucketLockName(name), async (held) => {
      if (held.unfinished !== undefined) {
        const bucket = JSON.parse(held.unfinished) as NewBucket;
        if (!(await this.#readRecord(name))) await this.#makeOrUndo(bucket, held);
        await held.setNote('');
      }
      return work(held);
    });
  }

  /** Removes a bucket without a record, which would belong to the operator. If that fails too, the next caller completes it. */
  async #makeOrUndo(bucket: NewBucket, held: StoreLock): Promise<void> {
    try {
      await this.#make(bucket);
    } catch (error) {
      try {
        await this.#options.s3.removeEmptyBucket(bucket.name).catch((again: unknown) => {
          if (describePermanentFailure(again) === undefined) throw again;
        });
        await held.setNote('');
      } catch (problem) {
        this.#options.report(problem, describeHalfMadeBucket(bucket.name));
      }
      throw error;
    }
  }

  /** The bucket did not exist under this lock: if the store says that it exists, an earlier response was lost. */
  async #make(bucket: NewBucket): Promise<void> {
    // Written first, so that removing the service finds the bucket even if this manager dies here.
    if (bucket.madeFor) await this.#madeFor.add(bucket.name, bucket.madeFor.uid);
    await this.#options.s3.makeBucket(bucket.name);
    await this.#writeRecord(bucket);
  }

  async #describe(name: string, known?: NewBucket): Promise<Bucket | undefined> {
    const { s3 } = this.#options;
    const [record, page] = await Promise.all([known ?? this.#readRecord(name), this.#content(name)]);
    if (!page) return (await s3.hasBucket(name)) ? { ...this.#operatorBucket(name), usage: NONE } : undefined;
    const bytes = page.objects.reduce((sum, each) => sum + each.bytes, 0);
    return { ...(record ?? this.#operatorBucket(name)), usage: { bytes, objects: page.objects.length } };
  }

  /** Undefined if there is no such bucket, and for a bucket of another tenant of the store. */
  async #content(name: string) {
    try {
      return await this.#options.s3.list(name, '', COUNTED);
    } catch (error) {
      if (hasErrorCode(error, 'AccessDenied')) return undefined;
      throw error;
    }
  }

  #operatorBucket(name: string): NewBucket {
    const { managerName: ownerName } = this.#options;
    return { name, owner: CLUSTER_ADMIN, ownerName, visibility: 'private', allowedUsers: [] };
  }

  /** Names of buckets that exist, or did a moment ago. */
  async #listNames({ visibleTo, madeFor }: BucketQuery): Promise<string[]> {
    const there = await this.#options.s3.bucketNames();
    if (madeFor === undefined && visibleTo === undefined) return there;
    const those = new Set(madeFor === undefined ? await this.#listRecorded() : await this.#madeFor.list(madeFor));
    return there.filter((name) => those.has(name));
  }

  async #listRecorded(): Promise<string[]> {
    const names: string[] = [];
    for (let after = ''; ; ) {
      const page = await this.#options.s3.list(this.#options.s3.staging, RECORDS, COUNTED, after);
      names.push(...(page?.objects ?? []).map(({ key }) => key.slice(RECORDS.length)));
      if (!page?.more) return names;
      after = page.objects.at(-1)?.key ?? after;
    }
  }

  async #readRecord(name: string): Promise<NewBucket | undefined> {
    const found = await this.#options.s3.read(recordObject(name, this.#options.s3), MOST_BYTES);
    return found && (JSON.parse(found.body.toString()) as NewBucket);
  }

  async #writeRecord({ name, owner, ownerName, visibility, allowedUsers, madeFor }: NewBucket): Promise<void> {
    const record = { name, owner, ownerName, visibility, allowedUsers, ...(madeFor && { madeFor }) };
    await this.#options.s3.put(recordObject(name, this.#options.s3), JSON.stringify(record));
  }
}

const NONE = { bytes: 0, objects: 0 };

const recordObject = (name: string, { staging }: S3Api) => ({ bucket: staging, key: `${RECORDS}${name}` });
