import type { Checksum, ChecksumType } from '../lib/checksum.ts';
import { S3Error } from '../lib/errors.ts';
import { makesEvent, type StoreBucket } from './buckets.ts';
import type { ContentFiles } from './content-files.ts';
import type { Contents, NewContent, StoredContent } from './contents.ts';
import type { StoreDatabase } from './database.ts';
import type { EventName, EventOrigin, Outbox } from './events.ts';
import { type ListingQuestion, listPage, type ObjectListing } from './listing.ts';

/** What a client says about an object, and gets back with it. */
export interface Description {
  readonly contentType: string;
  /** Names in lower case: `x-amz-meta-*`, `cache-control`, `content-disposition`, `content-encoding` and so on. */
  readonly headers: Readonly<Record<string, string>>;
  readonly tags: Readonly<Record<string, string>>;
}

export interface StoredChecksum extends Checksum {
  readonly type: ChecksumType;
}

export interface ObjectRecord extends Description, Modification {
  readonly key: string;
  readonly size: number;
  /** Without quotes. */
  readonly eTag: string;
  readonly checksum: StoredChecksum | undefined;
  /** When it was made of parts. */
  readonly parts: number | undefined;
  /** Its number in the database; null for nothing. */
  readonly content: number | null;
}

interface NewObject extends Description {
  readonly key: string;
  readonly size: number;
  readonly eTag: string;
  readonly content: NewContent;
  readonly checksum?: StoredChecksum | undefined;
  readonly parts?: number;
}

/** Everything that goes with a write besides the object. */
export interface Writing {
  readonly event: EventName;
  readonly origin: EventOrigin;
  readonly conditions?: WriteConditions;
  /** Whether the writer still may, asked in the transaction: keys are revoked while a body arrives. */
  readonly check?: (bucket: StoreBucket) => void;
}

/** What is the same in all events of this server. */
interface Deployment {
  readonly region: string;
  readonly id: string;
  readonly endpoint: () => string;
}

interface ObjectsDeps {
  readonly database: StoreDatabase;
  readonly contents: Contents;
  readonly files: ContentFiles;
  readonly outbox: Outbox;
  readonly clock: ModificationClock;
  readonly deployment: Deployment;
}

interface Written {
  readonly record: ObjectRecord;
  readonly removed: readonly string[];
  readonly event: number | undefined;
}

/** Objects, their usage and their events: whatever changes one changes all, in one transaction. */
export class Objects {
  readonly #deps: ObjectsDeps;
  readonly #statements: ReturnType<typeof prepare>;

  constructor(deps: ObjectsDeps) {
    this.#deps = deps;
    this.#statements = prepare(deps.database);
  }

  find(bucket: StoreBucket, key: string): ObjectRecord | undefined {
    const row = this.#statements.find.get(bucket.id, key);
    return row && recordOf(row);
  }

  get(bucket: StoreBucket, key: string): ObjectRecord {
    const record = this.find(bucket, key);
    if (!record) throw new S3Error('NoSuchKey');
    return record;
  }

  /** Together with `find`, in one turn of the event loop. */
  contentOf({ content }: ObjectRecord): StoredContent {
    return this.#deps.contents.read(content);
  }

  list(bucket: StoreBucket, question: ListingQuestion): ObjectListing<ObjectRecord> {
    const page = listPage((from, limit) => this.#statements.list.iterate(bucket.id, from, limit), question);
    return { ...page, rows: page.rows.map(recordOf) };
  }

  async put(bucketName: () => StoreBucket, object: NewObject, writing: Writing): Promise<ObjectRecord> {
    const written = await this.#deps.database.write(() => this.putNow(bucketName(), object, writing));
    return this.settled(written);
  }

  /** In a transaction. */
  putNow(bucket: StoreBucket, object: NewObject, { event, origin, conditions, check }: Writing): Written {
    const existing = this.find(bucket, object.key);
    check?.(bucket);
    if (conditions) checkWriteConditions(conditions, existing);
    this.#count(bucket, existing ? 0 : 1, object.size - (existing?.size ?? 0));
    const content = this.#deps.contents.add(object.content);
    const removed = existing ? this.#deps.contents.release(existing.content) : [];
    const repeated = existing && isRepeated(object, existing) ? existing : undefined;
    const { modified, sequencer } = repeated ?? this.#deps.clock.next(existing?.modified);
    const modification = { modified, sequencer };
    const { key, size, eTag, contentType, headers, checksum, parts } = object;
    const tags = repeated?.tags ?? object.tags;
    this.#statements.put.run(
      bucket.id,
      key,
      size,
      eTag,
      modification.modified,
      modification.sequencer,
      content,
      contentType,
      packed(headers),
      checksum ? JSON.stringify(checksum) : null,
      packed(tags),
      parts ?? null,
    );
    const { deployment, outbox } = this.#deps;
    const seq =
      !repeated && makesEvent(bucket, key)
        ? outbox.add({
            ...modification,
            name: event,
            bucket: bucket.name,
            key,
            size,
            eTag,
            contentType,
            headers,
            origin,
            region: deployment.region,
            deployment: deployment.id,
            endpoint: deployment.endpoint(),
          })
        : undefined;
    const record = { key, size, eTag, contentType, headers, tags, checksum, parts, content, ...modification };
    return { record, removed, event: seq };
  }

  /** After the transaction is on the disk. */
  settled({ record, removed, event }: Written): ObjectRecord {
    this.#deps.files.remove(removed);
    if (event !== undefined) this.#deps.outbox.written(event);
    return record;
  }

  /** Removes what is there of these keys; returns those that were there. */
  async remove(
    bucketName: () => StoreBucket,
    keys: readonly string[],
    check?: (bucket: StoreBucket, key: string, existing: ObjectRecord | undefined) => void,
  ): Promise<string[]> {
    const { removed, found } = await this.#deps.database.remove(() => {
      const bucket = bucketName();
      const files: string[] = [];
      const there: string[] = [];
      for (const key of keys) {
        const existing = this.find(bucket, key);
        check?.(bucket, key, existing);
        if (!existing) continue;
        files.push(...this.removeNow(bucket, existing));
        there.push(key);
      }
      return { removed: files, found: there };
    });
    this.#deps.files.remove(removed);
    return found;
  }

  /** In a transaction. Returns the files that are no longer needed. */
  removeNow(bucket: Pick<StoreBucket, 'id'>, existing: Pick<ObjectRecord, 'key' | 'size' | 'content'>): string[] {
    this.#statements.remove.run(bucket.id, existing.key);
    this.#statements.count.run(-1, -existing.size, bucket.id);
    return this.#deps.contents.release(existing.content);
  }

  async setTags(bucketName: () => StoreBucket, key: string, tags: Readonly<Record<string, string>>): Promise<void> {
    await this.#deps.database.write(() => {
      const bucket = bucketName();
      this.get(bucket, key);
      this.setTagsNow(bucket, key, tags);
    });
  }

  /** In a transaction. */
  setTagsNow(bucket: StoreBucket, key: string, tags: Readonly<Record<string, string>>): void {
    this.#statements.setTags.run(packed(tags), bucket.id, key);
  }

  /** Would so many more bytes be too many? Asked before they are received, so that they need not be. */
  checkRoom(bucket: StoreBucket, bytes: number): void {
    if (bucket.quota === undefined) return;
    const used = this.#statements.used.get(bucket.id);
    if (used && used.bytes + used.pending + bytes > bucket.quota) throw new S3Error('XMinioAdminBucketQuotaExceeded');
  }

  #count(bucket: StoreBucket, objects: number, bytes: number): void {
    if (bucket.quota !== undefined && bytes > 0) {
      const used = this.#statements.used.get(bucket.id);
      if (used && used.bytes + bytes > bucket.quota) throw new S3Error('XMinioAdminBucketQuotaExceeded');
    }
    this.#statements.count.run(objects, bytes, bucket.id);
  }
}

function prepare(database: StoreDatabase) {
  const columns = 'key, size, etag, modified, sequencer, content, content_type, headers, checksum, tags, parts';
  return {
    find: database.query<ObjectRow>(`SELECT ${columns} FROM object WHERE bucket = ? AND key = ?`),
    list: database.query<ObjectRow>(`SELECT ${columns} FROM object WHERE bucket = ? AND key >= ? ORDER BY key LIMIT ?`),
    put: database.query(
      `INSERT OR REPLACE INTO object (bucket, ${columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    remove: database.query('DELETE FROM object WHERE bucket = ? AND key = ?'),
    setTags: database.query('UPDATE object SET tags = ? WHERE bucket = ? AND key = ?'),
    count: database.query('UPDATE bucket SET objects = objects + ?, bytes = bytes + ? WHERE id = ?'),
    used: database.query<{ bytes: number; pending: number }>('SELECT bytes, pending FROM bucket WHERE id = ?'),
  };
}

/** What must hold of the object that a write replaces. ETags as clients send them: quoted or not, a list, or `*`. */
export interface WriteConditions {
  readonly ifMatch?: string;
  readonly ifNoneMatch?: string;
}

export function matchesETag(list: string, eTag: string): boolean {
  return list.split(',').some((each) => {
    const wanted = each.trim();
    return wanted === '*' || wanted.replace(/^W\//, '').replace(/^"(.*)"$/, '$1') === eTag;
  });
}

/** S3: If-Match of a key that does not exist is 404, everything else that does not hold is 412. */
export function checkWriteConditions(
  { ifMatch, ifNoneMatch }: WriteConditions,
  existing: { readonly eTag: string } | undefined,
): void {
  if (ifMatch !== undefined) {
    if (!existing) throw new S3Error('NoSuchKey');
    if (!matchesETag(ifMatch, existing.eTag)) throw new S3Error('PreconditionFailed');
  }
  if (ifNoneMatch !== undefined && existing && matchesETag(ifNoneMatch, existing.eTag)) {
    throw new S3Error('PreconditionFailed');
  }
}

/** Which attempt of a job has written an object. */
export const MARK = 'x-amz-meta-oscar-attempt';

type Marked = Pick<ObjectRecord, 'headers' | 'eTag' | 'size'>;

/**
 * Has the same attempt written the same there before? Then its answer was lost, and it asks again: whoever waits for the
 * file has heard of it, and would run another job for nothing.
 */
function isRepeated(object: Marked, existing: Marked): boolean {
  const mark = object.headers[MARK];
  const isMarked = mark !== undefined && mark === existing.headers[MARK];
  return isMarked && object.eTag === existing.eTag && object.size === existing.size;
}

export interface ObjectRow {
  key: string;
  size: number;
  etag: string;
  modified: number;
  sequencer: string;
  content: number | null;
  content_type: string;
  headers: string | null;
  checksum: string | null;
  tags: string | null;
  parts: number | null;
}

/** Most objects have none, and then nothing is stored. */
export const packed = (values: Readonly<Record<string, string>>) =>
  Object.keys(values).length === 0 ? null : JSON.stringify(values);

export const unpacked = (text: string | null): Readonly<Record<string, string>> => (text ? JSON.parse(text) : {});

export function recordOf(row: ObjectRow): ObjectRecord {
  return {
    key: row.key,
    size: row.size,
    eTag: row.etag,
    modified: row.modified,
    sequencer: row.sequencer,
    contentType: row.content_type,
    headers: unpacked(row.headers),
    tags: unpacked(row.tags),
    checksum: row.checksum === null ? undefined : JSON.parse(row.checksum),
    parts: row.parts ?? undefined,
    content: row.content,
  };
}

/** When an object was written: for people and HTTP in milliseconds, and in nanoseconds as its event carries it. */
export interface Modification {
  readonly modified: number;
  /** Sixteen hex digits in capitals, as MinIO has it; unlike any other of this object. */
  readonly sequencer: string;
}

const NANOSECONDS = 1_000_000n;

/** Gives each modification a time of its own: those of one millisecond are numbered in its nanoseconds. */
export class ModificationClock {
  readonly #now: () => number;
  #last = 0;
  #count = 0n;

  constructor(now: () => number) {
    this.#now = now;
  }

  /**
   * `before` is when the object was written that this one replaces. A rewrite gets another millisecond, since jobs are
   * told apart by it (docs/jobs.md#no-event-is-lost-none-runs-twice) and even the same bytes written again are a new
   * event.
   */
  next(before?: number): Modification {
    const now = Math.floor(this.#now());
    const modified = now === before ? now + 1 : now;
    this.#count = modified === this.#last ? this.#count + 1n : 0n;
    this.#last = modified;
    const nanoseconds = BigInt(modified) * NANOSECONDS + (this.#count % NANOSECONDS);
    return { modified, sequencer: nanoseconds.toString(16).toUpperCase().padStart(16, '0') };
  }
}
