import { S3Error } from './errors.ts';

const KIB = 1024;
const MIB = 1024 * KIB;
const GIB = 1024 * MIB;

/** The limits for clients. The defaults are S3's own where S3 has one. */
export interface Limits {
  /**
   * Objects up to this size are stored in the database. A larger value grows the database; below it, each object costs
   * a file and its sync.
   */
  readonly inlineBytes: number;
  /** The largest PUT or part. */
  readonly uploadBytes: number;
  /** The largest object made of parts. */
  readonly objectBytes: number;
  /** The smallest part, except for the last one. */
  readonly partBytes: number;
  readonly parts: number;
  /**
   * The largest XML body. Lists of parts and of keys to delete are the longest: 10,000 parts with checksums take less
   * than 3 MiB.
   */
  readonly xmlBytes: number;
  /** Milliseconds after which a multipart upload that received no part is removed. */
  readonly staleUpload: number;
}

export const DEFAULT_LIMITS: Limits = {
  inlineBytes: 16 * KIB,
  uploadBytes: 5 * GIB,
  objectBytes: 5 * 1024 * GIB,
  partBytes: 5 * MIB,
  parts: 10_000,
  xmlBytes: 4 * MIB,
  staleUpload: 7 * 24 * 3_600_000,
};

/** S3's limit for the bytes of a key in UTF-8. */
const KEY_BYTES = 1024;

/** S3's limit for the bytes of all x-amz-meta names and values. */
export const METADATA_BYTES = 2 * KIB;

/** RFC 9110 §5.5: the characters of a header value, one for each byte. */
// oxlint-disable-next-line no-control-regex
export const isHeaderValue = (text: string) => /^[\t\u0020-\u007e\u0080-\u00ff]*$/.test(text);

/** RFC 9110 §5.1. */
const isHeaderName = (text: string) => /^[a-z0-9!#$%&'*+.^_`|~-]+$/.test(text);

/** Stored metadata is returned as headers, but a query or an in-process caller may contain any characters. */
export function checkHeader(name: string, value: string): void {
  if (isHeaderName(name) && isHeaderValue(value)) return;
  throw new S3Error('InvalidArgument', `The metadata ${name} has characters that are not allowed in a header.`);
}

/** Bytes are counted only for long keys: a UTF-16 unit takes at most three. */
export function checkKeyLength(key: string): void {
  if (key.length * 3 > KEY_BYTES && Buffer.byteLength(key) > KEY_BYTES) throw new S3Error('KeyTooLongError');
}
