import { Slots } from '../../../../lib/concurrency.ts';
import type { Cursor, Page } from '../../../../lib/version.ts';
import { CLUSTER_ADMIN } from '../../../../model/service/index.ts';
import {
  type Bucket,
  type BucketChange,
  type BucketQuery,
  type NewBucket,
  StoreError,
} from '../../../../ports/index.ts';
import { isMeant, isReserved, MadeFor } from '../bucket-facts.ts';
import { notTakenBack } from '../buckets.ts';
import type { BucketClaims, Held } from '../claims.ts';
import { removeObjectsUnder } from '../staging.ts';
import { finalWord, isRefused } from '../wire/requests.ts';
import type { S3 } from '../wire/s3.ts';

export interface RecordedBucketsOptions {
  readonly s3: S3;
  readonly claims: BucketClaims;
  readonly managerName: string;
  readonly report: (problem: unknown, what: string) => void;
}

/** Buckets in a page: each takes some requests. */
const PAGE = 100;
const AT_ONCE = new Slots(16);

/** Objects that are counted. What is beyond is not: the store has no count of its own. */
const COUNTED = 1_000;

/** What a record may have: a bucket can be shared with some ten thousand users. */
const MOST_BYTES = 1024 * 1024;

const RECORDS = '.buckets/';

/** Somebody puts new objects into it all the time. */
const EMPTYINGS = 5;

/**
 * Buckets of a store that knows no owners: what is to be known of each is a record in the manager's own bucket. One that
 * has no record was made by whoever administers the store. It is made under a claim that says what it is to be, and gets
 * its record last: whoever finds one without record finds the claim too, and finishes it.
 */
export class RecordedBuckets {
  readonly #options: RecordedBucketsOptions;
  readonly #madeFor: MadeFor;

  constructor(options: RecordedBucketsOptions) {
    this.#options = options;
    this.#madeFor = new MadeFor(options.s3);
  }

  create(bucket: NewBucket): Promise<'created' | { readonly exists: Bucket }> {
    const { name } = bucket;
    return this.#alone(name, async (held) => {
      const exists = await this.#describe(name);
      if (exists) return { exists };
      await held.note(JSON.stringify(bucket));
      await this.#makeOrUndo(bucket, held);
      return 'created';
    });
  }

  async find(name: string): Promise<Bucket | undefined> {
    if (isReserved(name)) return undefined;
    const found = await this.#record(name);
    const { claims } = this.#options;
    // Somebody is making it, or died over that.
    if (!found && (await claims.isHeld(claimOf(name)))) return this.#alone(name, () => this.#describe(name));
    return this.#describe(name, found);
  }

  /** Whose they are is looked at first: counting is what takes time. */
  async list(query: BucketQuery): Promise<Page<Bucket>> {
    const { cursor = '' } = query;
    const later = (await this.#names(query)).filter((name) => name > cursor && !isReserved(name)).toSorted();
    const page = later.slice(0, PAGE);
    const found = await Promise.all(
      page.map((name) =>
        AT_ONCE.use(async () => {
          const record = (await this.#record(name)) ?? this.#operators(name);
          return isMeant(record, query) ? this.find(name) : undefined;
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
    await this.#alone(name, async () => {
      const before = await this.#describe(name);
      if (!before) throw new StoreError('absent', `there is no bucket "${name}"`);
      const { usage: _, madeFor: old, ...rest } = before;
      const kept = madeFor === undefined ? old : (madeFor ?? undefined);
      if (kept) await this.#madeFor.remember(name, kept.uid);
      await this.#write({
        ...rest,
        ...(visibility && { visibility }),
        ...(allowedUsers && { allowedUsers }),
        ...(kept && { madeFor: kept }),
      });
      if (old && old.uid !== kept?.uid) await this.#madeFor.forget(name, old.uid);
    });
  }

  /** The record goes last: until then the name is not free. */
  async remove(name: string): Promise<void> {
    const { s3 } = this.#options;
    await this.#alone(name, async () => {
      const record = await this.#record(name);
      await this.#removeWithContent(name);
      if (record?.madeFor) await this.#madeFor.forget(name, record.madeFor.uid);
      await s3.remove(placeOf(name, s3));
    });
  }

  async #removeWithContent(name: string): Promise<void> {
    const { s3 } = this.#options;
    for (let tries = 1; ; tries++) {
      await removeObjectsUnder(name, '', s3);
      try {
        return await s3.removeEmptyBucket(name);
      } catch (error) {
        if (tries === EMPTYINGS || !isRefused(error, 'BucketNotEmpty')) throw error;
      }
    }
  }

  /** Nobody else changes the bucket meanwhile. What somebody died over is finished first. */
  #alone<T>(name: string, work: (held: Held) => Promise<T>): Promise<T> {
    return this.#options.claims.hold(claimOf(name), async (held) => {
      if (held.left !== undefined) {
        const bucket = JSON.parse(held.left) as NewBucket;
        if (!(await this.#record(name))) await this.#makeOrUndo(bucket, held);
        await held.note('');
      }
      return work(held);
    });
  }

  /** One without a record would be the operator's. If it cannot be removed either, whoever comes next finishes it. */
  async #makeOrUndo(bucket: NewBucket, held: Held): Promise<void> {
    try {
      await this.#make(bucket);
    } catch (error) {
      try {
        await this.#options.s3.removeEmptyBucket(bucket.name).catch((again: unknown) => {
          if (finalWord(again) === undefined) throw again;
        });
        await held.note('');
      } catch (problem) {
        this.#options.report(problem, notTakenBack(bucket.name));
      }
      throw error;
    }
  }

  /** It was not there a moment ago, and nobody else makes it: if it is, an answer got lost. */
  async #make(bucket: NewBucket): Promise<void> {
    // First: whoever clears up after the service finds by it what somebody died over.
    if (bucket.madeFor) await this.#madeFor.remember(bucket.name, bucket.madeFor.uid);
    await this.#options.s3.makeBucket(bucket.name);
    await this.#write(bucket);
  }

  async #describe(name: string, known?: NewBucket): Promise<Bucket | undefined> {
    const { s3 } = this.#options;
    const [record, page] = await Promise.all([known ?? this.#record(name), this.#content(name)]);
    if (!page) return (await s3.hasBucket(name)) ? { ...this.#operators(name), usage: NONE } : undefined;
    const bytes = page.objects.reduce((sum, each) => sum + each.bytes, 0);
    return { ...(record ?? this.#operators(name)), usage: { bytes, objects: page.objects.length } };
  }

  /** Undefined for no bucket, and for one of somebody who shares the store with us. */
  async #content(name: string) {
    try {
      return await this.#options.s3.list(name, '', COUNTED);
    } catch (error) {
      if (isRefused(error, 'AccessDenied')) return undefined;
      throw error;
    }
  }

  #operators(name: string): NewBucket {
    const { managerName: ownerName } = this.#options;
    return { name, owner: CLUSTER_ADMIN, ownerName, visibility: 'private', allowedUsers: [] };
  }

  /** Of buckets that are there, or were a moment ago. */
  async #names({ visibleTo, madeFor }: BucketQuery): Promise<string[]> {
    const there = await this.#options.s3.bucketNames();
    if (madeFor === undefined && visibleTo === undefined) return there;
    const those = new Set(madeFor === undefined ? await this.#recorded() : await this.#madeFor.buckets(madeFor));
    return there.filter((name) => those.has(name));
  }

  async #recorded(): Promise<string[]> {
    const names: string[] = [];
    for (let after = ''; ; ) {
      const page = await this.#options.s3.list(this.#options.s3.staging, RECORDS, COUNTED, after);
      names.push(...(page?.objects ?? []).map(({ key }) => key.slice(RECORDS.length)));
      if (!page?.more) return names;
      after = page.objects.at(-1)?.key ?? after;
    }
  }

  async #record(name: string): Promise<NewBucket | undefined> {
    const found = await this.#options.s3.read(placeOf(name, this.#options.s3), MOST_BYTES);
    return found && (JSON.parse(found.body.toString()) as NewBucket);
  }

  async #write({ name, owner, ownerName, visibility, allowedUsers, madeFor }: NewBucket): Promise<void> {
    const record = { name, owner, ownerName, visibility, allowedUsers, ...(madeFor && { madeFor }) };
    await this.#options.s3.put(placeOf(name, this.#options.s3), JSON.stringify(record));
  }
}

const NONE = { bytes: 0, objects: 0 };

const claimOf = (name: string) => `bucket/${name}`;

const placeOf = (name: string, { staging }: S3) => ({ bucket: staging, key: `${RECORDS}${name}` });
