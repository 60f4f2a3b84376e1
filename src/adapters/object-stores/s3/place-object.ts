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
  /** Resolves when the store has loaded the permissions of the account. */
  readonly settled: () => Promise<void>;
}

/** The metadata keys of a placed object. */
const MARK = 'oscar-attempt';
const INPUT_LABEL = 'oscar-input';

/** The prefix of the placement records in the staging bucket. They are removed together with the sources. */
export const PLACED_PREFIX = '.placed/';

/** The speed of a slow disk. It extends the lease of the lock, so it matters only if a manager dies during a copy. */
const BYTES_PER_MS = 10_000;

/**
 * Copies an object to its destination, once. The store has no transactions: the manager locks, checks again, copies, and
 * writes a placement record that outlives the copy. If it dies between copy and record, the next manager recognizes the copy
 * by its metadata. It copies again only if a user has replaced the object before that.
 *
 * With an input label, the lock is that of the destination, so that no other manager places an object there meanwhile. The copy
 * is conditional too, for other writers; stores that ignore conditions on copies leave them the time between check and copy.
 */
export async function place(from: PlaceFrom, to: ObjectName, by: PlacedBy, options: PlaceOptions): Promise<Placed> {
  try {
    return await placeOnce(from, to, by, options);
  } catch (error) {
    // A store that has just started may not have loaded the permissions of the account yet.
    if (!(error instanceof PermanentPlaceFailure) || error.status !== 403) return toRefusal(error);
    await options.settled();
    return placeOnce(from, to, by, options).catch(toRefusal);
  }
}

/** The store permanently rejects the object at its destination. */
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

/** For requests about the destination. A rejection of any other request says nothing about the destination. */
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
  { mark, inputLabel }: PlacedBy,
  { s3, locks }: Pick<PlaceOptions, 's3' | 'locks'>,
): Promise<Placed> {
  const memory = placementRecord(from, to, mark, s3);
  const isProtected = inputLabel !== undefined;
  const metadata = { [MARK]: mark, ...(isProtected && { [INPUT_LABEL]: inputLabel }) };
  const look = async (): Promise<Extract<Placed, string> | PlaceableSource> => {
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
    if (source.eTag !== from.eTag) return 'changed';
    if (isProtected && final && final.metadata[INPUT_LABEL] !== inputLabel) return 'conflict';
    return { ...source, condition: isProtected ? unchanged(final?.eTag) : {} };
  };
  const seen = await look();
  if (typeof seen === 'string') return seen;
  return locks.withLock(
    isProtected ? `protect/${to.bucket}/${to.key}` : `place/${memory.key}`,
    async () => {
      const source = await look();
      if (typeof source === 'string') return source;
      const refused = await toFailureOutcome(atDestination(copyWithin(from, to, source, metadata, s3)));
      // The condition of the source failed, or that of the destination.
      if (refused === 'changed' && isProtected && (await s3.head(from))?.eTag === from.eTag) return 'conflict';
      if (refused) return refused;
      await s3.put(memory, '');
      return 'placed';
    },
    seen.bytes / BYTES_PER_MS,
  );
}

interface PlaceableSource {
  readonly bytes: number;
  readonly contentType: string | undefined;
  /** Headers of the copy. */
  readonly condition: Readonly<Record<string, string>>;
}

/** The condition that the object at the destination still has this eTag, or still does not exist. */
const unchanged = (eTag: string | undefined): Readonly<Record<string, string>> =>
  eTag === undefined ? { 'if-none-match': '*' } : { 'if-match': `"${eTag}"` };

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

/** The key begins like that of the source, as far as the maximum length allows. */
function placementRecord(from: PlaceFrom, to: ObjectName, mark: string, { staging }: S3Api): ObjectName {
  const near = Buffer.from(from.key)
    .subarray(0, 900)
    .toString('utf8')
    .replace(/\uFFFD+$/, '');
  const digest = hash('sha256', JSON.stringify([from.bucket, from.key, from.eTag, to.bucket, to.key, mark]));
  return { bucket: staging, key: `${PLACED_PREFIX}${near}/${digest.slice(0, 40)}` };
}

/** The maximum size of a single copy request. */
const LARGEST_COPY = 5 * 1024 ** 3;

/** Larger parts need fewer requests; smaller ones finish before a proxy on the way times out. */
const PART = 512 * 1024 ** 2;

/** A store copies about as fast as its disks write; half an hour is enough for the slowest. */
const DEADLINE = 30 * 60_000;

/** Copies within the store, without downloading, if the source has this eTag. */
export async function copyWithin(
  from: PlaceFrom,
  to: ObjectName,
  { bytes, contentType, condition = {} }: Omit<PlaceableSource, 'condition'> & Partial<PlaceableSource>,
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
  if (bytes > largest) {
    return copyInParts({ path, source, description, condition, bytes, part: Math.min(PART, largest) }, s3);
  }
  const replace = { 'x-amz-metadata-directive': 'REPLACE', 'x-amz-tagging-directive': 'REPLACE' };
  const headers = { ...source, ...replace, ...description, ...condition };
  // Not repeated: a second copy would be a second event.
  throwIfFailed(await s3.send({ method: 'PUT', path, headers, deadline: DEADLINE, once: true }), path);
}

interface PartedCopy {
  readonly path: string;
  readonly source: Readonly<Record<string, string>>;
  readonly description: Readonly<Record<string, string>>;
  readonly condition: Readonly<Record<string, string>>;
  readonly bytes: number;
  readonly part: number;
}

async function copyInParts(
  { path, source, description, condition, bytes, part }: PartedCopy,
  s3: S3Api,
): Promise<void> {
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
    const headers = condition;
    throwIfFailed(await s3.send({ method: 'POST', path, query, headers, body, deadline: DEADLINE, once: true }), path);
  } catch (error) {
    const [, bucket = '', key = ''] = /^\/([^/]+)\/([^]*)$/.exec(path) ?? [];
    await s3.abortUpload({ bucket, key }, uploadId).catch(() => undefined);
    throw error;
  }
}

/** For a slow copy, S3 answers with status 200 first, and with an error in the body later. */
function throwIfFailed(answer: StoreAnswer, path: string): StoreAnswer {
  const text = answer.body.toString();
  if (!text.includes('<Error>')) return answer;
  const reason = childElements({ name: '', text: '', children: [readXml(text.trim(), 'Error')] }, 'Error').map(
    (error) => childText(error, 'Code'),
  );
  throw new StoreResponseError(500, reason[0] ?? '', `to copy to ${path}`);
}
