import type { Checksum, ChecksumType } from '../lib/checksum.ts';
import { S3Error } from '../lib/errors.ts';
import { matchesRules, type StoreBucket } from './buckets.ts';
import type { ContentFiles, Contents, NewContent, StoredContent } from './contents.ts';
import type { StoreDatabase } from './database.ts';
import type { EventName, EventOrigin, Outbox } from './events.ts';
import { type ListingQuery, listPage, type ObjectListing } from './listing.ts';

/** What a client stores with an object and gets back with it. */
export interface ObjectDescription {
  readonly contentType: string;
  /** Names in lower case: `x-amz-meta-*`, `cache-control`, `content-disposition`, `content-encoding` and so on. */
  readonly headers: Readonly<Record<string, string>>;
  readonly tags: Readonly<Record<string, string>>;
}

export interface StoredChecksum extends Checksum {
  readonly type: ChecksumType;
}

export interface ObjectRecord extends ObjectDescription, Modification {
  readonly key: string;
  readonly size: number;
  /** Without quotes. */
  readonly eTag: string;
  readonly checksum: StoredChecksum | undefined;
  /** The number of parts, if it was uploaded in parts. */
  readonly parts: number | undefined;
  /** The id of its content in the database; null if it is empty. */
  readonly content: number | null;
}

interface NewObject extends ObjectDescription {
  readonly key: string;
  readonly size: number;
  readonly eTag: string;
  readonly content: NewContent;
  readonly checksum?: StoredChecksum | undefined;
  readonly parts?: number;
}

/** The circumstances of a write: its event, and what must hold for it. */
export interface WriteContext {
  readonly event: EventName;
  readonly origin: EventOrigin;
  readonly conditions?: WriteConditions;
  /** Called in the transaction; throws if the writer has lost its rights while the body arrived. */
  readonly check?: (bucket: StoreBucket) => void;
}

/** The facts that are the same in all events of this server. */
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

interface WriteResult {
  readonly record: ObjectRecord;
  readonly removed: readonly string[];
  readonly event: number | undefined;
}

/** Objects, the usage of buckets, and events. A write changes all of them in one transaction. */
export class Objects {
  readonly #deps: ObjectsDeps;
  readonly #statements: ReturnType<typeof prepare>;

  constructor(deps: ObjectsDeps) {
    this.#deps = deps;
    this.#statements = prepare(deps.database);
  }

  find(bucket: StoreBucket, key: string): ObjectRecord | undefined {
    const row = this.#statements.find.get(bucket.id, key);
    return row && toObjectRecord(row);
  }

  get(bucket: StoreBucket, key: string): ObjectRecord {
    const record = this.find(bucket, key);
    if (!record) throw new S3Error('NoSuchKey');
    return record;
  }

  /** Call it in the same turn of the event loop as `find`: later, another write may have replaced the content. */
  getContent({ content }: ObjectRecord): StoredContent {
    return this.#deps.contents.read(content);
  }

  list(bucket: StoreBucket, question: ListingQuery): ObjectListing<ObjectRecord> {
    const page = listPage((from, limit) => this.#statements.list.iterate(bucket.id, from, limit), question);
    return { ...page, rows: page.rows.map(toObjectRecord) };
  }

  async put(resolveBucket: () => StoreBucket, object: NewObject, writing: WriteContext): Promise<ObjectRecord> {
    const written = await this.#deps.database.write(() => this.putInTransaction(resolveBucket(), object, writing));
    return this.afterCommit(written);
  }

  /** Call it in a transaction. */
  putInTransaction(
    bucket: StoreBucket,
    object: NewObject,
    { event, origin, conditions, check }: WriteContext,
  ): WriteResult {
    const existing = this.find(bucket, object.key);
    check?.(bucket);
    if (conditions) checkWriteConditions(conditions, existing);
    this.#count(bucket, existing ? 0 : 1, object.size - (existing?.size ?? 0));
    const content = this.#deps.contents.add(object.content);
    const removed = existing ? this.#deps.contents.release(existing.content) : [];
    const repeated = existing && isRepeatedWrite(object, existing) ? existing : undefined;
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
      encodeMap(headers),
      checksum ? JSON.stringify(checksum) : null,
      encodeMap(tags),
      parts ?? null,
    );
    const { deployment, outbox } = this.#deps;
    const seq =
      !repeated && matchesRules(bucket, key)
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

  /** Call it when the transaction is on disk: removes unused files and publishes the event. */
  afterCommit({ record, removed, event }: WriteResult): ObjectRecord {
    this.#deps.files.remove(removed);
    if (event !== undefined) this.#deps.outbox.onDurable(event);
    return record;
  }

  /** Removes the objects with these keys. Resolves to the keys that existed. */
  async remove(
    resolveBucket: () => StoreBucket,
    keys: readonly string[],
    check?: (bucket: StoreBucket, key: string, existing: ObjectRecord | undefined) => void,
  ): Promise<string[]> {
    const { removed, found } = await this.#deps.database.remove(() => {
      const bucket = resolveBucket();
      const files: string[] = [];
      const there: string[] = [];
      for (const key of keys) {
        const existing = this.find(bucket, key);
        check?.(bucket, key, existing);
        if (!existing) continue;
        files.push(...this.removeInTransaction(bucket, existing));
        there.push(key);
      }
      return { removed: files, found: there };
    });
    this.#deps.files.remove(removed);
    return found;
  }

  /** Call it in a transaction. Returns the files that are no longer needed. */
  removeInTransaction(
    bucket: Pick<StoreBucket, 'id'>,
    existing: Pick<ObjectRecord, 'key' | 'size' | 'content'>,
  ): string[] {
    this.#statements.remove.run(bucket.id, existing.key);
    this.#statements.count.run(-1, -existing.size, bucket.id);
    return this.#deps.contents.release(existing.content);
  }

  async setTags(resolveBucket: () => StoreBucket, key: string, tags: Readonly<Record<string, string>>): Promise<void> {
    await this.#deps.database.write(() => {
      const bucket = resolveBucket();
      this.get(bucket, key);
      this.setTagsInTransaction(bucket, key, tags);
    });
  }

  /** Call it in a transaction. */
  setTagsInTransaction(bucket: StoreBucket, key: string, tags: Readonly<Record<string, string>>): void {
    this.#statements.setTags.run(encodeMap(tags), bucket.id, key);
  }

  /** Throws if this many more bytes exceed the quota. Called before the body is received, to reject it early. */
  checkQuota(bucket: StoreBucket, bytes: number): void {
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

/** Conditions on the object that a write replaces. ETags as clients send them: quoted or not, a list, or `*`. */
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

/** As in S3: If-Match for a missing key gives 404, every other failed condition 412. */
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

/** The header with the attempt of a job that wrote the object. */
export const ATTEMPT_HEADER = 'x-amz-meta-oscar-attempt';

/** The header with the input of the job that wrote the object, as a digest. */
export const INPUT_HEADER = 'x-amz-meta-oscar-input';

type Marked = Pick<ObjectRecord, 'headers' | 'eTag' | 'size'>;

/**
 * Whether the same attempt has already written the same content here. Then it did not receive the response and repeats
 * the write. A second event would start another job for the same file.
 */
function isRepeatedWrite(object: Marked, existing: Marked): boolean {
  const mark = object.headers[ATTEMPT_HEADER];
  const isMarked = mark !== undefined && mark === existing.headers[ATTEMPT_HEADER];
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

/** Null for an empty map, which most objects have. */
export const encodeMap = (values: Readonly<Record<string, string>>) =>
  Object.keys(values).length === 0 ? null : JSON.stringify(values);

export const decodeMap = (text: string | null): Readonly<Record<string, string>> => (text ? JSON.parse(text) : {});

export function toObjectRecord(row: ObjectRow): ObjectRecord {
  return {
    key: row.key,
    size: row.size,
    eTag: row.etag,
    modified: row.modified,
    sequencer: row.sequencer,
    contentType: row.content_type,
    headers: decodeMap(row.headers),
    tags: decodeMap(row.tags),
    checksum: row.checksum === null ? undefined : JSON.parse(row.checksum),
    parts: row.parts ?? undefined,
    content: row.content,
  };
}

/** The time of a write: in milliseconds, and in nanoseconds for its event. */
export interface Modification {
  readonly modified: number;
  /** Sixteen upper-case hex digits, as in MinIO; unique for this object. */
  readonly sequencer: string;
}

const NANOSECONDS = 1_000_000n;

/** Gives each modification its own time: modifications in the same millisecond differ in their nanoseconds. */
export class ModificationClock {
  readonly #now: () => number;
  #last = 0;
  #count = 0n;

  constructor(now: () => number) {
    this.#now = now;
  }

  /**
   * `before` is the modification time of the replaced object. A rewrite gets another millisecond, because job ids
   * depend on it (docs/jobs.md#no-event-is-lost-none-runs-twice): even the same bytes written again are a new event.
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
