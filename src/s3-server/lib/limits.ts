import { S3Error } from './errors.ts';

const KIB = 1024;
const MIB = 1024 * KIB;
const GIB = 1024 * MIB;

/** What a client may ask of the server. The defaults are S3's own figures where S3 has one. */
export interface Limits {
  /** Objects up to this size lie in the database. Larger: the database grows. Smaller: one file and its sync each. */
  readonly inlineBytes: number;
  /** One PUT or one part. */
  readonly uploadBytes: number;
  /** An object made of parts. */
  readonly objectBytes: number;
  /** Every part but the last. */
  readonly partBytes: number;
  readonly parts: number;
  /** Lists of parts and of keys to delete are the longest: 10,000 parts with checksums are below 3 MiB. */
  readonly xmlBytes: number;
  /** After this many milliseconds an upload of which no part came any more is forgotten. */
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

/** Bytes of a key in UTF-8, as S3 has it. */
const KEY_BYTES = 1024;

/** Bytes of all x-amz-meta names and values, as S3 has it. */
export const METADATA_BYTES = 2 * KIB;

/** RFC 9110 §5.5: what can stand in a header, one character for each byte. */
// oxlint-disable-next-line no-control-regex
export const isHeaderValue = (text: string) => /^[\t\u0020-\u007e\u0080-\u00ff]*$/.test(text);

/** RFC 9110 §5.1. */
const isHeaderName = (text: string) => /^[a-z0-9!#$%&'*+.^_`|~-]+$/.test(text);

/** What is kept must be able to come back as a header: a query or a caller in the process may bring anything. */
export function checkHeader(name: string, value: string): void {
  if (isHeaderName(name) && isHeaderValue(value)) return;
  throw new S3Error('InvalidArgument', `The metadata ${name} has characters that no header can have.`);
}

/** A key has at most 1024 bytes; a UTF-16 unit never takes more than three. */
export function checkKeyLength(key: string): void {
  if (key.length * 3 > KEY_BYTES && Buffer.byteLength(key) > KEY_BYTES) throw new S3Error('KeyTooLongError');
}
