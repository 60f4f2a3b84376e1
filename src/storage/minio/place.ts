import { hash } from 'node:crypto';
import { type ObjectName, type Placed, type PlacedBy, type PlaceFrom, STAGING_BUCKET } from '../object-store.ts';
import type { Claims } from './claims.ts';
import { copyObject } from './copy.ts';
import { isRefused, unless } from './wire/refusal.ts';
import type { S3 } from './wire/s3.ts';

export interface PlaceOptions {
  readonly s3: S3;
  readonly claims: Claims;
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
export async function place(
  from: PlaceFrom,
  to: ObjectName,
  { mark }: PlacedBy,
  { s3, claims }: PlaceOptions,
): Promise<Placed> {
  const memory = memoryOf(from, to, mark);
  const look = async (): Promise<Placed | { bytes: number; contentType: string | undefined }> => {
    const [bucket, final, remembered, source] = await Promise.all([
      unless(['NotFound', 'NoSuchBucket'], s3.send({ method: 'HEAD', path: `/${to.bucket}` })),
      s3.head(to),
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
      const refused = await outcomeOf(copyObject(from, to, source, { [MARK]: mark }, s3));
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
    if (isRefused(error, 'NoSuchKey')) return 'missing';
    if (isRefused(error, 'NoSuchBucket')) return 'no-bucket';
    if (isRefused(error, 'PreconditionFailed')) return 'changed';
    if (isRefused(error, 'XMinioAdminBucketQuotaExceeded')) return 'full';
    throw error;
  }
}

/** Below what the source is below, as far as a key may be long. */
function memoryOf(from: PlaceFrom, to: ObjectName, mark: string): ObjectName {
  const near = Buffer.from(from.key)
    .subarray(0, 900)
    .toString('utf8')
    .replace(/\uFFFD+$/, '');
  const digest = hash('sha256', JSON.stringify([from.bucket, from.key, from.eTag, to.bucket, to.key, mark]));
  return { bucket: STAGING_BUCKET, key: `${PLACED}${near}/${digest.slice(0, 40)}` };
}
