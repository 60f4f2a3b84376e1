import { hash } from 'node:crypto';
import type { ObjectName, Placed, PlacedBy, PlaceFrom } from '../object-store.ts';
import type { Claims } from './claims.ts';
import { copyObject } from './copy.ts';
import { finalWord, isRefused, Refusal, unless } from './wire/refusal.ts';
import type { S3 } from './wire/s3.ts';

export interface PlaceOptions {
  readonly s3: S3;
  readonly claims: Claims;
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
      const refused = await outcomeOf(taken(copyObject(from, to, source, { [MARK]: mark }, s3)));
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
