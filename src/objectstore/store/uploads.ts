import { hash, randomBytes } from 'node:crypto';
import { S3Error } from '../errors.ts';
import type { Limits } from '../limits.ts';
import { type Algorithm, type ChecksumType, checksumOfParts } from '../payload/checksum.ts';
import type { Bucket } from './bucket.ts';
import type { ContentFiles } from './content-files.ts';
import type { Database } from './database.ts';
import { type Description, type ObjectRecord, packed, type StoredChecksum, unpacked } from './object.ts';
import type { Objects, Writing } from './objects.ts';
import { prepareUploads, type UploadRow } from './upload-statements.ts';

export interface Upload extends Description {
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

/** A part whose bytes are on the disk; without file when it is empty. */
export interface NewPart {
  readonly number: number;
  readonly file: string | undefined;
  readonly size: number;
  readonly eTag: string;
  readonly checksum: string | undefined;
}

/** A part as the client lists it when it completes the upload. */
export interface ClaimedPart {
  readonly number: number;
  readonly eTag: string;
  readonly checksum: string | undefined;
}

interface StoredPart extends Part {
  readonly file: string | null;
}

export interface UploadsDeps {
  readonly database: Database;
  readonly objects: Objects;
  readonly files: ContentFiles;
  readonly limits: Limits;
  readonly now: () => number;
}

/** Uploads in parts. Completing one joins the files of its parts without reading them. */
export class Uploads {
  readonly #deps: UploadsDeps;
  readonly #statements: ReturnType<typeof prepareUploads>;

  constructor(deps: UploadsDeps) {
    this.#deps = deps;
    this.#statements = prepareUploads(deps.database);
  }

  async begin(bucketName: () => Bucket, upload: Omit<Upload, 'id' | 'begun'>): Promise<string> {
    const id = randomBytes(24).toString('base64url');
    const now = this.#deps.now();
    const { key, contentType, headers, tags, checksumAlgorithm = null, checksumType = null } = upload;
    await this.#deps.database.write(() => {
      const about = [contentType, packed(headers), packed(tags)] as const;
      this.#statements.begin.run(id, bucketName().id, key, now, now, ...about, checksumAlgorithm, checksumType);
    });
    return id;
  }

  get(bucket: Bucket, key: string, id: string): Upload {
    const row = this.#statements.find.get(id, bucket.id, key);
    if (!row) throw new S3Error('NoSuchUpload');
    return uploadOf(row);
  }

  async putPart(bucketName: () => Bucket, key: string, id: string, part: NewPart): Promise<Part> {
    const { number, file, size, eTag, checksum } = part;
    const modified = this.#deps.now();
    const replaced = await this.#deps.database.write(() => {
      const bucket = bucketName();
      this.get(bucket, key, id);
      const existing = this.#statements.part.get(id, number);
      this.#deps.objects.checkRoom(bucket, size - (existing?.size ?? 0));
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
    return this.#statements.parts.all(upload.id, after, limit).map(partOf);
  }

  /** In order of key and id. */
  list(bucket: Bucket, { prefix, keyMarker, idMarker, limit }: UploadsQuestion): Upload[] {
    const rows = this.#statements.list.all(bucket.id, keyMarker, keyMarker, idMarker, prefix, limit);
    return rows.filter(({ key }) => key.startsWith(prefix)).map(uploadOf);
  }

  async complete(
    bucketName: () => Bucket,
    key: string,
    id: string,
    claimed: readonly ClaimedPart[],
    writing: Writing,
  ): Promise<ObjectRecord> {
    const { written, unused } = await this.#deps.database.write(() => {
      const bucket = bucketName();
      const upload = this.get(bucket, key, id);
      const stored = this.#statements.parts.all(id, 0, this.#deps.limits.parts + 1).map(partOf);
      const parts = this.#chosen(upload, stored, claimed);
      const used = new Set(parts.map(({ number }) => number));
      // Parts no longer wait once they are the object: else they would count twice against the quota.
      this.#drop(bucket, id, stored);
      const size = parts.reduce((sum, part) => sum + part.size, 0);
      if (size > this.#deps.limits.objectBytes) throw new S3Error('EntityTooLarge');
      const object = {
        key,
        size,
        contentType: upload.contentType,
        headers: upload.headers,
        tags: upload.tags,
        eTag: `${hash('md5', Buffer.concat(parts.map(({ eTag }) => Buffer.from(eTag, 'hex'))), 'hex')}-${parts.length}`,
        parts: parts.length,
        checksum: checksumOf(upload, parts),
        content: {
          kind: 'files' as const,
          segments: parts.flatMap((part) => (part.file ? [{ file: part.file, size: part.size }] : [])),
        },
      };
      const rest = stored.filter(({ number }) => !used.has(number));
      const now = this.#deps.objects.putNow(bucket, object, writing);
      return { written: now, unused: rest.flatMap(({ file }) => file ?? []) };
    });
    this.#deps.files.remove(unused);
    return this.#deps.objects.settled(written);
  }

  async abort(bucketName: () => Bucket, key: string, id: string): Promise<void> {
    const files = await this.#deps.database.write(() => {
      const bucket = bucketName();
      this.get(bucket, key, id);
      return this.#drop(bucket, id, this.#statements.parts.all(id, 0, this.#deps.limits.parts + 1).map(partOf));
    });
    this.#deps.files.remove(files);
  }

  /** Forgets a few uploads that nobody has touched since `time`, or all of a bucket; says whether there were any. */
  async forget(which: { readonly untouchedSince: number } | { readonly bucket: number }): Promise<boolean> {
    const files = await this.#deps.database.write(() => {
      const rows =
        'bucket' in which
          ? this.#statements.ofBucket.all(which.bucket)
          : this.#statements.stale.all(which.untouchedSince);
      const dropped = rows.flatMap(({ id, bucket }) =>
        this.#drop({ id: bucket }, id, this.#statements.parts.all(id, 0, this.#deps.limits.parts + 1).map(partOf)),
      );
      return { any: rows.length > 0, dropped };
    });
    this.#deps.files.remove(files.dropped);
    return files.any;
  }

  #drop(bucket: Pick<Bucket, 'id'>, id: string, parts: readonly StoredPart[]): string[] {
    this.#statements.dropParts.run(id);
    this.#statements.drop.run(id);
    this.#statements.count.run(-parts.reduce((sum, { size }) => sum + size, 0), bucket.id);
    return parts.flatMap(({ file }) => file ?? []);
  }

  /** The stored parts that the client lists, or why not. */
  #chosen(upload: Upload, stored: readonly StoredPart[], claimed: readonly ClaimedPart[]): StoredPart[] {
    if (claimed.length === 0) throw new S3Error('MalformedXML', 'An upload is completed with at least one part.');
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

export interface UploadsQuestion {
  readonly prefix: string;
  readonly keyMarker: string;
  readonly idMarker: string;
  readonly limit: number;
}

function checksumOf(
  { checksumAlgorithm: algorithm, checksumType: type = 'COMPOSITE' }: Upload,
  parts: readonly Part[],
): StoredChecksum | undefined {
  if (!algorithm) return undefined;
  const summands = parts.map(({ size, checksum = '' }) => ({ size, checksum }));
  return { algorithm, type, value: checksumOfParts(algorithm, type, summands) };
}

function uploadOf(row: UploadRow): Upload {
  return {
    id: row.id,
    key: row.key,
    begun: row.begun,
    contentType: row.content_type,
    headers: unpacked(row.headers),
    tags: unpacked(row.tags),
    checksumAlgorithm: row.checksum_algorithm ?? undefined,
    checksumType: row.checksum_type ?? undefined,
  };
}

function partOf(row: Omit<StoredPart, 'checksum'> & { readonly checksum: string | null }): StoredPart {
  return { ...row, checksum: row.checksum ?? undefined };
}
