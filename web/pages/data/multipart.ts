import { KEPT_FOR_USER } from '../../session/session.ts';

/** An upload in parts that has begun. It contains no credentials: those of each part are in its presigned URL. */
export interface MultipartUpload {
  readonly bucket: string;
  readonly key: string;
  readonly size: number;
  /** When the file was last changed: a changed file begins again. */
  readonly modified: number;
  readonly uploadId: string;
  readonly begun: number;
}

export interface StoredPart {
  readonly number: number;
  readonly size: number;
  readonly eTag: string;
}

/** S3 allows 10,000 parts of at least 5 MiB. */
const MOST_PARTS = 10_000;
const PART_BYTES = 8 * 1024 * 1024;

export function splitParts(size: number): { number: number; begin: number; end: number }[] {
  const bytes = Math.max(PART_BYTES, Math.ceil(size / MOST_PARTS));
  return Array.from({ length: Math.ceil(size / bytes) }, (_, index) => ({
    number: index + 1,
    begin: index * bytes,
    end: Math.min(size, (index + 1) * bytes),
  }));
}

/** The answer of the store to ListParts. */
export function listParts(document: Document): { parts: StoredPart[]; isTruncated: boolean } {
  const text = (parent: ParentNode, name: string) => parent.querySelector(name)?.textContent ?? '';
  return {
    parts: [...document.querySelectorAll('Part')].map((part) => ({
      number: Number(text(part, 'PartNumber')),
      size: Number(text(part, 'Size')),
      eTag: text(part, 'ETag'),
    })),
    isTruncated: text(document, 'IsTruncated') === 'true',
  };
}

/** Stores remove unfinished uploads after some days. */
const FORGET_MS = 7 * 24 * 60 * 60 * 1000;

/**
 * The uploads that have not finished, so that they can go on after a reload of the page: names and sizes of files, and the ids
 * of the uploads. Signing out removes them.
 */
export const Multiparts = {
  find: (bucket: string, key: string, { size, lastModified }: File): MultipartUpload | undefined =>
    read().find(
      (each) => each.bucket === bucket && each.key === key && each.size === size && each.modified === lastModified,
    ),
  remember: (upload: MultipartUpload) =>
    write([...read().filter(({ bucket, key }) => bucket !== upload.bucket || key !== upload.key), upload]),
  forget: ({ uploadId }: MultipartUpload) => write(read().filter((each) => each.uploadId !== uploadId)),
};

function read(): MultipartUpload[] {
  try {
    const stored = JSON.parse(localStorage.getItem(KEPT_FOR_USER) ?? '[]') as MultipartUpload[];
    return stored.filter(({ begun }) => Date.now() - begun < FORGET_MS);
  } catch {
    // Another program has changed it.
    return [];
  }
}

function write(uploads: readonly MultipartUpload[]): void {
  if (uploads.length === 0) localStorage.removeItem(KEPT_FOR_USER);
  else localStorage.setItem(KEPT_FOR_USER, JSON.stringify(uploads));
}
