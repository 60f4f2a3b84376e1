import { hash } from 'node:crypto';
import type { ObjectName, Placed, PlacedBy, PlaceFrom } from '../../../ports/index.ts';
import { all, readXml, textOf, writeXml } from '../../../s3-server/index.ts';
import type { BucketClaims } from './claims.ts';
import { finalWord, isRefused, Refusal, type StoreAnswer, unless } from './wire/requests.ts';
import { copySource, type S3 } from './wire/s3.ts';

interface PlaceOptions {
  readonly s3: S3;
  readonly claims: BucketClaims;
  /** Resolves when the store knows what it lets us do. */
  readonly settled: () => Promise<void>;
}

/** The metadata of what was placed. */
const MARK = 'oscar-attempt';

/** Where it is remembered what was placed, beside the sources: it goes with them. */
export const PLACED = '.placed/';

/** A slow disk copies so much in a millisecond. Only who dies over a copy is waited for so long. */
const BYTES_PER_MS = 10_000;

/**
 * Copies an object to its final place, once. The store has no transactions: whoever copies has the claim, looks again,
 * and leaves a memory that outlives the copy. One who dies between the copy and the memory is known by the mark of the
 * copy; only if somebody replaces that before the next one looks, it is copied again.
 */
export async function place(from: PlaceFrom, to: ObjectName, by: PlacedBy, options: PlaceOptions): Promise<Placed> {
  try {
    return await placeOnce(from, to, by, options);
  } catch (error) {
    // One that has just started does not know yet what we may do.
    if (!(error instanceof NotTaken) || error.status !== 403) return refusedBy(error);
    await options.settled();
    return placeOnce(from, to, by, options).catch(refusedBy);
  }
}

/** The store does not take what is to be placed. */
class NotTaken extends Error {
  readonly status: number;

  constructor(word: string, cause: Refusal) {
    super(word, { cause });
    this.status = cause.status;
  }
}

function refusedBy(error: unknown): Placed {
  if (error instanceof NotTaken) return { refused: error.message };
  throw error;
}

/** What is asked about the final place. Of what else is asked, a refusal says nothing about it. */
async function taken<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    const word = finalWord(error);
    throw word !== undefined && error instanceof Refusal ? new NotTaken(word, error) : error;
  }
}

async function placeOnce(
  from: PlaceFrom,
  to: ObjectName,
  { mark }: PlacedBy,
  { s3, claims }: Pick<PlaceOptions, 's3' | 'claims'>,
): Promise<Placed> {
  const memory = memoryOf(from, to, mark, s3);
  const look = async (): Promise<Extract<Placed, string> | { bytes: number; contentType: string | undefined }> => {
    const [bucket, final, remembered, source] = await Promise.all([
      taken(unless(['NotFound', 'NoSuchBucket'], s3.send({ method: 'HEAD', path: `/${to.bucket}` }))),
      taken(s3.head(to)),
      s3.head(memory),
      s3.head(from),
    ]);
    if (!bucket) return 'no-bucket';
    if (final?.metadata[MARK] === mark) return 'there';
    if (!source) return 'missing';
    if (remembered) return 'there';
    return source.eTag === from.eTag ? source : 'changed';
  };
  const seen = await look();
  if (typeof seen === 'string') return seen;
  return claims.hold(
    `place/${memory.key}`,
    async () => {
      const source = await look();
      if (typeof source === 'string') return source;
      const refused = await outcomeOf(taken(copyWithin(from, to, source, { [MARK]: mark }, s3)));
      if (refused) return refused;
      await s3.put(memory, '');
      return 'placed';
    },
    seen.bytes / BYTES_PER_MS,
  );
}

async function outcomeOf(copying: Promise<void>): Promise<Placed | undefined> {
  try {
    await copying;
    return undefined;
  } catch (error) {
    const cause = error instanceof NotTaken ? error.cause : error;
    if (isRefused(cause, 'NoSuchKey')) return 'missing';
    if (isRefused(cause, 'NoSuchBucket')) return 'no-bucket';
    if (isRefused(cause, 'PreconditionFailed')) return 'changed';
    if (isRefused(cause, 'XMinioAdminBucketQuotaExceeded')) return 'full';
    throw error;
  }
}

/** Below what the source is below, as far as a key may be long. */
function memoryOf(from: PlaceFrom, to: ObjectName, mark: string, { staging }: S3): ObjectName {
  const near = Buffer.from(from.key)
    .subarray(0, 900)
    .toString('utf8')
    .replace(/\uFFFD+$/, '');
  const digest = hash('sha256', JSON.stringify([from.bucket, from.key, from.eTag, to.bucket, to.key, mark]));
  return { bucket: staging, key: `${PLACED}${near}/${digest.slice(0, 40)}` };
}

/** What one request may copy. */
const LARGEST_COPY = 5 * 1024 ** 3;

/** Larger: fewer requests. Smaller: each is done before anybody on the way loses patience. */
const PART = 512 * 1024 ** 2;

/** A store copies about as fast as its disks write; half an hour is for the slowest. */
const DEADLINE = 30 * 60_000;

/** Copies within the store if the source has this eTag. The bytes do not leave it. */
export async function copyWithin(
  from: PlaceFrom,
  to: ObjectName,
  { bytes, contentType }: { readonly bytes: number; readonly contentType: string | undefined },
  metadata: Readonly<Record<string, string>>,
  s3: S3,
  largest = LARGEST_COPY,
): Promise<void> {
  const path = `/${to.bucket}/${to.key}`;
  const source = { 'x-amz-copy-source': copySource(from), 'x-amz-copy-source-if-match': `"${from.eTag}"` };
  const description = {
    ...(contentType !== undefined && { 'content-type': contentType }),
    ...Object.fromEntries(Object.entries(metadata).map(([name, value]) => [`x-amz-meta-${name}`, value])),
  };
  if (bytes > largest) return copyInParts({ path, source, description, bytes, part: Math.min(PART, largest) }, s3);
  const replace = { 'x-amz-metadata-directive': 'REPLACE', 'x-amz-tagging-directive': 'REPLACE' };
  const headers = { ...source, ...replace, ...description };
  // Sent again it would be another event.
  checked(await s3.send({ method: 'PUT', path, headers, deadline: DEADLINE, once: true }), path);
}

interface PartedCopy {
  readonly path: string;
  readonly source: Readonly<Record<string, string>>;
  readonly description: Readonly<Record<string, string>>;
  readonly bytes: number;
  readonly part: number;
}

async function copyInParts({ path, source, description, bytes, part }: PartedCopy, s3: S3): Promise<void> {
  const begun = await s3.send({ method: 'POST', path, query: { uploads: '' }, headers: description });
  const uploadId = textOf(readXml(begun.body.toString(), 'InitiateMultipartUploadResult'), 'UploadId') ?? '';
  try {
    const parts: { PartNumber: number; ETag: string }[] = [];
    for (let at = 0; at < bytes; at += part) {
      const PartNumber = parts.length + 1;
      const query = { partNumber: String(PartNumber), uploadId };
      const headers = { ...source, 'x-amz-copy-source-range': `bytes=${at}-${Math.min(at + part, bytes) - 1}` };
      const answer = checked(await s3.send({ method: 'PUT', path, query, headers, deadline: DEADLINE }), path);
      parts.push({ PartNumber, ETag: textOf(readXml(answer.body.toString(), 'CopyPartResult'), 'ETag') ?? '' });
    }
    const body = writeXml('CompleteMultipartUpload', { Part: parts });
    const query = { uploadId };
    checked(await s3.send({ method: 'POST', path, query, body, deadline: DEADLINE, once: true }), path);
  } catch (error) {
    const [, bucket = '', key = ''] = /^\/([^/]+)\/([^]*)$/.exec(path) ?? [];
    await s3.abortUpload({ bucket, key }, uploadId).catch(() => undefined);
    throw error;
  }
}

/** A store that takes its time says first that all is well, and then what is not. */
function checked(answer: StoreAnswer, path: string): StoreAnswer {
  const text = answer.body.toString();
  if (!text.includes('<Error>')) return answer;
  const reason = all({ name: '', text: '', children: [readXml(text.trim(), 'Error')] }, 'Error').map((error) =>
    textOf(error, 'Code'),
  );
  throw new Refusal(500, reason[0] ?? '', `to copy to ${path}`);
}
