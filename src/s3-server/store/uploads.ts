import { hash, randomBytes } from 'node:crypto';
import { type Algorithm, type ChecksumType, combineChecksums } from '../lib/checksum.ts';
import { S3Error } from '../lib/errors.ts';
import type { Limits } from '../lib/limits.ts';
import type { StoreBucket } from './buckets.ts';
import type { ContentFiles } from './contents.ts';
import type { StoreDatabase } from './database.ts';
import { type ListingQuery, listPage, type ObjectListing } from './listing.ts';
import {
  decodeMap,
  encodeMap,
  type ObjectDescription,
  type ObjectRecord,
  type Objects,
  type StoredChecksum,
  type WriteContext,
} from './objects.ts';

export interface Upload extends ObjectDescription {
  readonly id: string;
  readonly key: string;
  /** Milliseconds. */
  readonly begun: number;
  readonly checksumAlgorithm: Algorithm | undefined;
  readonly checksumType: ChecksumType | undefined;
}

export interface Part {
  readonly number: number;
  readonly size: number;
  readonly eTag: string;
  /** Base64, of the algorithm of the upload. */
  readonly checksum: string | undefined;
  /** Milliseconds. */
  readonly modified: number;
}

/** A part whose bytes are on disk; an empty part has no file. */
export interface NewPart {
  readonly number: number;
  readonly file: string | undefined;
  readonly size: number;
  readonly eTag: string;
  readonly checksum: string | undefined;
}

/** A part in the client's request to complete the upload. */
export interface ClaimedPart {
  readonly number: number;
  readonly eTag: string;
  readonly checksum: string | undefined;
}

/** What the client declares about the object that it completes. */
export interface ExpectedObject {
  /** With the algorithm and type of the upload. A composite one may end in its number of parts. */
  readonly checksum?: string | undefined;
  readonly size?: number | undefined;
}

interface StoredPart extends Part {
  readonly file: string | null;
}

interface UploadsDeps {
  readonly database: StoreDatabase;
  readonly objects: Objects;
  readonly files: ContentFiles;
  readonly limits: Limits;
  readonly now: () => number;
}

/** Multipart uploads. Completing an upload joins the files of its parts without reading them. */
export class Uploads {
  readonly #deps: UploadsDeps;
  readonly #statements: ReturnType<typeof prepareUploads>;

  constructor(deps: UploadsDeps) {
    this.#deps = deps;
    this.#statements = prepareUploads(deps.database);
  }

  async begin(resolveBucket: () => StoreBucket, upload: Omit<Upload, 'id' | 'begun'>): Promise<string> {
    const id = randomBytes(24).toString('base64url');
    const now = this.#deps.now();
    const { key, contentType, headers, tags, checksumAlgorithm = null, checksumType = null } = upload;
    await this.#deps.database.write(() => {
      const about = [contentType, encodeMap(headers), encodeMap(tags)] as const;
      this.#statements.begin.run(id, resolveBucket().id, key, now, now, ...about, checksumAlgorithm, checksumType);
    });
    return id;
  }

  get(bucket: StoreBucket, key: string, id: string): Upload {
    const row = this.#statements.find.get(id, bucket.id, key);
    if (!row) throw new S3Error('NoSuchUpload');
    return toUpload(row);
  }

  async putPart(resolveBucket: () => StoreBucket, key: string, id: string, part: NewPart): Promise<Part> {
    const { number, file, size, eTag, checksum } = part;
    const modified = this.#deps.now();
    const replaced = await this.#deps.database.write(() => {
      const bucket = resolveBucket();
      this.get(bucket, key, id);
      const existing = this.#statements.part.get(id, number);
      this.#deps.objects.checkQuota(bucket, size - (existing?.size ?? 0));
      this.#statements.putPart.run(id, number, file ?? null, size, eTag, checksum ?? null, modified);
      this.#statements.touch.run(modified, id);
      this.#statements.count.run(size - (existing?.size ?? 0), bucket.id);
      return existing?.file;
    });
    if (replaced) this.#deps.files.remove([replaced]);
    return { number, size, eTag, checksum, modified };
  }

  /** In order of their numbers. */
  parts(upload: Pick<Upload, 'id'>, after: number, limit: number): Part[] {
    return this.#statements.parts.all(upload.id, after, limit).map(toPart);
  }

  /** In order of key and id. */
  list(bucket: StoreBucket, question: UploadListingQuery): ObjectListing<Upload> {
    const { prefix, after, idMarker = '' } = question;
    // Uploads of the key that the last page ended in, which come before all other keys of this page.
    const isInKey = idMarker !== '' && after.startsWith(prefix);
    let rest = !isInKey ? [] : this.#statements.ofKey.all(bucket.id, after, idMarker, question.limit + 1);
    const page = listPage<UploadRow>((from, limit) => {
      const rows = [...rest, ...this.#statements.list.all(bucket.id, from, limit)];
      rest = [];
      return rows;
    }, question);
    return { ...page, rows: page.rows.map(toUpload) };
  }

  async complete(
    resolveBucket: () => StoreBucket,
    key: string,
    id: string,
    claimed: readonly ClaimedPart[],
    { expected = {}, ...writing }: WriteContext & { readonly expected?: ExpectedObject },
  ): Promise<ObjectRecord> {
    const { written, unused } = await this.#deps.database.write(() => {
      const bucket = resolveBucket();
      const upload = this.get(bucket, key, id);
      const stored = this.#statements.parts.all(id, 0, this.#deps.limits.parts + 1).map(toPart);
      const parts = this.#chosen(upload, stored, claimed);
      const used = new Set(parts.map(({ number }) => number));
      // Removed before the object is added: otherwise the parts would count twice towards the quota.
      this.#drop(bucket, id, stored);
      const size = parts.reduce((sum, part) => sum + part.size, 0);
      if (size > this.#deps.limits.objectBytes) throw new S3Error('EntityTooLarge');
      const checksum = objectChecksum(upload, parts);
      checkExpected(expected, size, checksum);
      const object = {
        key,
        size,
        contentType: upload.contentType,
        headers: upload.headers,
        tags: upload.tags,
        eTag: `${hash('md5', Buffer.concat(parts.map(({ eTag }) => Buffer.from(eTag, 'hex'))), 'hex')}-${parts.length}`,
        parts: parts.length,
        checksum,
        content: {
          kind: 'files' as const,
          segments: parts.flatMap((part) => (part.file ? [{ file: part.file, size: part.size }] : [])),
        },
      };
      const rest = stored.filter(({ number }) => !used.has(number));
      const now = this.#deps.objects.putInTransaction(bucket, object, writing);
      return { written: now, unused: rest.flatMap(({ file }) => file ?? []) };
    });
    this.#deps.files.remove(unused);
    return this.#deps.objects.afterCommit(written);
  }

  async abort(resolveBucket: () => StoreBucket, key: string, id: string): Promise<void> {
    const files = await this.#deps.database.remove(() => {
      const bucket = resolveBucket();
      this.get(bucket, key, id);
      return this.#drop(bucket, id, this.#statements.parts.all(id, 0, this.#deps.limits.parts + 1).map(toPart));
    });
    this.#deps.files.remove(files);
  }

  /** Removes a few stale uploads, or a few of a bucket. Resolves to false if there were none. */
  async removeSome(which: { readonly untouchedSince: number } | { readonly bucket: number }): Promise<boolean> {
    const files = await this.#deps.database.remove(() => {
      const rows =
        'bucket' in which
          ? this.#statements.ofBucket.all(which.bucket)
          : this.#statements.stale.all(which.untouchedSince);
      const dropped = rows.flatMap(({ id, bucket }) =>
        this.#drop({ id: bucket }, id, this.#statements.parts.all(id, 0, this.#deps.limits.parts + 1).map(toPart)),
      );
      return { any: rows.length > 0, dropped };
    });
    this.#deps.files.remove(files.dropped);
    return files.any;
  }

  #drop(bucket: Pick<StoreBucket, 'id'>, id: string, parts: readonly StoredPart[]): string[] {
    this.#statements.dropParts.run(id);
    this.#statements.drop.run(id);
    this.#statements.count.run(-parts.reduce((sum, { size }) => sum + size, 0), bucket.id);
    return parts.flatMap(({ file }) => file ?? []);
  }

  /** Finds the stored parts that the client lists. Throws if one does not match. */
  #chosen(upload: Upload, stored: readonly StoredPart[], claimed: readonly ClaimedPart[]): StoredPart[] {
    if (claimed.length === 0) throw new S3Error('MalformedXML', 'The list must have at least one part.');
    const byNumber = new Map(stored.map((part) => [part.number, part]));
    const ascending = claimed.every(({ number }, index) => number > (claimed[index - 1]?.number ?? 0));
    if (!ascending) throw new S3Error('InvalidPartOrder');
    return claimed.map((claim, index) => {
      const part = byNumber.get(claim.number);
      const fits = part && part.eTag === claim.eTag && (!claim.checksum || claim.checksum === part.checksum);
      if (!fits) throw new S3Error('InvalidPart');
      if (upload.checksumAlgorithm && !part.checksum) throw new S3Error('InvalidPart');
      if (index < claimed.length - 1 && part.size < this.#deps.limits.partBytes) throw new S3Error('EntityTooSmall');
      return part;
    });
  }
}

interface UploadListingQuery extends ListingQuery {
  /** If set, the page begins with the uploads of the key `after` that have a greater id. */
  readonly idMarker?: string;
}

function objectChecksum(
  { checksumAlgorithm: algorithm, checksumType: type = 'COMPOSITE' }: Upload,
  parts: readonly Part[],
): StoredChecksum | undefined {
  if (!algorithm) return undefined;
  const summands = parts.map(({ size, checksum = '' }) => ({ size, checksum }));
  return { algorithm, type, value: combineChecksums(algorithm, type, summands) };
}

function checkExpected(expected: ExpectedObject, size: number, checksum: StoredChecksum | undefined): void {
  if (expected.size !== undefined && expected.size !== size) {
    throw new S3Error('InvalidRequest', `The parts have ${size} bytes, but x-amz-mp-object-size is ${expected.size}.`);
  }
  const value = checksum?.value ?? '';
  if (expected.checksum === undefined || [value, value.replace(/-\d+$/, '')].includes(expected.checksum)) return;
  throw new S3Error('BadDigest', 'The checksum in the request does not match the object.');
}

function toUpload(row: UploadRow): Upload {
  return {
    id: row.id,
    key: row.key,
    begun: row.begun,
    contentType: row.content_type,
    headers: decodeMap(row.headers),
    tags: decodeMap(row.tags),
    checksumAlgorithm: row.checksum_algorithm ?? undefined,
    checksumType: row.checksum_type ?? undefined,
  };
}

function toPart(row: Omit<StoredPart, 'checksum'> & { readonly checksum: string | null }): StoredPart {
  return { ...row, checksum: row.checksum ?? undefined };
}

interface UploadRow {
  id: string;
  bucket: number;
  key: string;
  begun: number;
  content_type: string;
  headers: string | null;
  tags: string | null;
  checksum_algorithm: Algorithm | null;
  checksum_type: ChecksumType | null;
}

interface PartRow {
  number: number;
  file: string | null;
  size: number;
  eTag: string;
  checksum: string | null;
  modified: number;
}

/** Uploads removed per transaction; each may have ten thousand parts. */
const AT_ONCE = 10;

function prepareUploads(database: StoreDatabase) {
  const columns = 'id, bucket, key, begun, content_type, headers, tags, checksum_algorithm, checksum_type';
  const part = 'number, file, size, etag AS eTag, checksum, modified';
  return {
    begin: database.query(
      `INSERT INTO upload
         (id, bucket, key, begun, touched, content_type, headers, tags, checksum_algorithm, checksum_type)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    find: database.query<UploadRow>(`SELECT ${columns} FROM upload WHERE id = ? AND bucket = ? AND key = ?`),
    touch: database.query('UPDATE upload SET touched = ? WHERE id = ?'),
    part: database.query<PartRow>(`SELECT ${part} FROM part WHERE upload = ? AND number = ?`),
    parts: database.query<PartRow>(`SELECT ${part} FROM part WHERE upload = ? AND number > ? ORDER BY number LIMIT ?`),
    putPart: database.query(
      `INSERT OR REPLACE INTO part (upload, number, file, size, etag, checksum, modified) VALUES (?, ?, ?, ?, ?, ?, ?)`,
    ),
    list: database.query<UploadRow>(
      `SELECT ${columns} FROM upload WHERE bucket = ? AND key >= ? ORDER BY key, id LIMIT ?`,
    ),
    ofKey: database.query<UploadRow>(
      `SELECT ${columns} FROM upload WHERE bucket = ? AND key = ? AND id > ? ORDER BY id LIMIT ?`,
    ),
    ofBucket: database.query<{ id: string; bucket: number }>(
      `SELECT id, bucket FROM upload WHERE bucket = ? LIMIT ${AT_ONCE}`,
    ),
    stale: database.query<{ id: string; bucket: number }>(
      `SELECT id, bucket FROM upload WHERE touched < ? LIMIT ${AT_ONCE}`,
    ),
    drop: database.query('DELETE FROM upload WHERE id = ?'),
    dropParts: database.query('DELETE FROM part WHERE upload = ?'),
    count: database.query('UPDATE bucket SET pending = pending + ? WHERE id = ?'),
  };
}
