import { hash } from 'node:crypto';
import type { ObjectName, Placed, PlacedBy, PlaceFrom } from '../../../ports/index.ts';
import { childElements, childText, readXml, writeXml } from '../../../s3-server/index.ts';
import { copySource, type S3Api } from './s3-api.ts';
import {
  describePermanentFailure,
  hasErrorCode,
  type StoreAnswer,
  StoreResponseError,
  undefinedOn,
} from './signed-http-client.ts';
import type { StoreLocks } from './store-locks.ts';

interface PlaceOptions {
  readonly s3: S3Api;
  readonly locks: StoreLocks;
  /** Resolves when the store knows what it lets us do. */
  readonly settled: () => Promise<void>;
}

/** The metadata of what was placed. */
const MARK = 'oscar-attempt';

/** Where it is remembered what was placed, beside the sources: it goes with them. */
export const PLACED_PREFIX = '.placed/';

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
    if (!(error instanceof PermanentPlaceFailure) || error.status !== 403) return toRefusal(error);
    await options.settled();
    return placeOnce(from, to, by, options).catch(toRefusal);
  }
}

/** The store does not take what is to be placed. */
class PermanentPlaceFailure extends Error {
  readonly status: number;

  constructor(word: string, cause: StoreResponseError) {
    super(word, { cause });
    this.status = cause.status;
  }
}

function toRefusal(error: unknown): Placed {
  if (error instanceof PermanentPlaceFailure) return { refused: error.message };
  throw error;
}

/** What is asked about the final place. Of what else is asked, a refusal says nothing about it. */
async function atDestination<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    const word = describePermanentFailure(error);
    throw word !== undefined && error instanceof StoreResponseError ? new PermanentPlaceFailure(word, error) : error;
  }
}

async function placeOnce(
  from: PlaceFrom,
  to: ObjectName,
  { mark }: PlacedBy,
  { s3, locks }: Pick<PlaceOptions, 's3' | 'locks'>,
): Promise<Placed> {
  const memory = placementRecord(from, to, mark, s3);
  const look = async (): Promise<Extract<Placed, string> | { bytes: number; contentType: string | undefined }> => {
    const [bucket, final, remembered, source] = await Promise.all([
      atDestination(undefinedOn(['NotFound', 'NoSuchBucket'], s3.send({ method: 'HEAD', path: `/${to.bucket}` }))),
      atDestination(s3.head(to)),
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
  return locks.withLock(
    `place/${memory.key}`,
    async () => {
      const source = await look();
      if (typeof source === 'string') return source;
      const refused = await toFailureOutcome(atDestination(copyWithin(from, to, source, { [MARK]: mark }, s3)));
      if (refused) return refused;
      await s3.put(memory, '');
      return 'placed';
    },
    seen.bytes / BYTES_PER_MS,
  );
}

async function toFailureOutcome(copying: Promise<void>): Promise<Placed | undefined> {
  try {
    await copying;
    return undefined;
  } catch (error) {
    const cause = error instanceof PermanentPlaceFailure ? error.cause : error;
    if (hasErrorCode(cause, 'NoSuchKey')) return 'missing';
    if (hasErrorCode(cause, 'NoSuchBucket')) return 'no-bucket';
    if (hasErrorCode(cause, 'PreconditionFailed')) return 'changed';
    if (hasErrorCode(cause, 'XMinioAdminBucketQuotaExceeded')) return 'full';
    throw error;
  }
}

/** Below what the source is below, as far as a key may be long. */
function placementRecord(from: PlaceFrom, to: ObjectName, mark: string, { staging }: S3Api): ObjectName {
  const near = Buffer.from(from.key)
    .subarray(0, 900)
    .toString('utf8')
    .replace(/\uFFFD+$/, '');
  const digest = hash('sha256', JSON.stringify([from.bucket, from.key, from.eTag, to.bucket, to.key, mark]));
  return { bucket: staging, key: `${PLACED_PREFIX}${near}/${digest.slice(0, 40)}` };
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
  s3: S3Api,
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
  throwIfFailed(await s3.send({ method: 'PUT', path, headers, deadline: DEADLINE, once: true }), path);
}

interface PartedCopy {
  readonly path: string;
  readonly source: Readonly<Record<string, string>>;
  readonly description: Readonly<Record<string, string>>;
  readonly bytes: number;
  readonly part: number;
}

async function copyInParts({ path, source, description, bytes, part }: PartedCopy, s3: S3Api): Promise<void> {
  const begun = await s3.send({ method: 'POST', path, query: { uploads: '' }, headers: description });
  const uploadId = childText(readXml(begun.body.toString(), 'InitiateMultipartUploadResult'), 'UploadId') ?? '';
  try {
    const parts: { PartNumber: number; ETag: string }[] = [];
    for (let at = 0; at < bytes; at += part) {
      const PartNumber = parts.length + 1;
      const query = { partNumber: String(PartNumber), uploadId };
      const headers = { ...source, 'x-amz-copy-source-range': `bytes=${at}-${Math.min(at + part, bytes) - 1}` };
      const answer = throwIfFailed(await s3.send({ method: 'PUT', path, query, headers, deadline: DEADLINE }), path);
      parts.push({ PartNumber, ETag: childText(readXml(answer.body.toString(), 'CopyPartResult'), 'ETag') ?? '' });
    }
    const body = writeXml('CompleteMultipartUpload', { Part: parts });
    const query = { uploadId };
    throwIfFailed(await s3.send({ method: 'POST', path, query, body, deadline: DEADLINE, once: true }), path);
  } catch (error) {
    const [, bucket = '', key = ''] = /^\/([^/]+)\/([^]*)$/.exec(path) ?? [];
    await s3.abortUpload({ bucket, key }, uploadId).catch(() => undefined);
    throw error;
  }
}

/** A store that takes its time says first that all is well, and then what is not. */
function throwIfFailed(answer: StoreAnswer, path: string): StoreAnswer {
  const text = answer.body.toString();
  if (!text.includes('<Error>')) return answer;
  const reason = childElements({ name: '', text: '', children: [readXml(text.trim(), 'Error')] }, 'Error').map(
    (error) => childText(error, 'Code'),
  );
  throw new StoreResponseError(500, reason[0] ?? '', `to copy to ${path}`);
}
