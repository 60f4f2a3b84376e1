import { hash } from 'node:crypto';
import { S3Error } from '../lib/errors.ts';
import type { StoreBucket } from './buckets.ts';
import type { StoreDatabase } from './database.ts';
import type { EventOrigin } from './events.ts';
import {
  ATTEMPT_HEADER,
  type ObjectDescription,
  type ObjectRecord,
  type Objects,
  type WriteContext,
} from './objects.ts';

interface CopyRequest {
  readonly from: { readonly bucket: () => StoreBucket; readonly key: string };
  readonly to: { readonly bucket: () => StoreBucket; readonly key: string };
  /** What the copy is described by; throws when the source is not the one that was meant. */
  readonly describe: (source: ObjectRecord) => ObjectDescription;
  readonly writing: WriteContext;
  /** The source goes in the same transaction. */
  readonly move?: boolean;
}

/** Copies within the store. The bytes are shared, so that a copy costs the same whatever its size. */
export async function copyStoredObject(
  {
    database,
    objects,
    remove,
  }: { database: StoreDatabase; objects: Objects; remove: (files: readonly string[]) => void },
  { from, to, describe, writing, move = false }: CopyRequest,
): Promise<ObjectRecord> {
  const { written, files } = await database.write(() => {
    const [sourceBucket, bucket] = [from.bucket(), to.bucket()];
    const source = objects.get(sourceBucket, from.key);
    const description = describe(source);
    const { size, eTag, checksum, parts } = source;
    const same = sourceBucket.id === bucket.id && from.key === to.key;
    if (same && move) throw new S3Error('InvalidRequest', 'An object cannot be moved to where it is.');
    const object = { ...description, key: to.key, size, eTag, checksum, ...(parts !== undefined && { parts }) };
    const content = { kind: 'shared', content: source.content } as const;
    const now = objects.putInTransaction(bucket, { ...object, content }, writing);
    return { written: now, files: move ? objects.removeInTransaction(sourceBucket, source) : [] };
  });
  remove(files);
  return objects.afterCommit(written);
}

interface PlaceRequest {
  readonly from: { readonly bucket: () => StoreBucket | undefined; readonly key: string; readonly eTag: string };
  readonly to: { readonly bucket: () => StoreBucket | undefined; readonly key: string };
  /** Of whoever places it, as the metadata `oscar-attempt`. */
  readonly mark: string;
  readonly origin: EventOrigin;
}

/** `there`: this was done before. `changed`, `missing`: the source is not the one that was meant. */
export type PlacedObject = 'placed' | 'there' | 'changed' | 'missing' | 'no-bucket';

/**
 * Copies an object to its final place, once. The source remembers, in the same transaction, where it was placed: whoever
 * does it again writes nothing, also when somebody has replaced or removed the final object since.
 */
export async function placeObject(
  { database, objects }: { database: StoreDatabase; objects: Objects },
  { from, to, mark, origin }: PlaceRequest,
): Promise<PlacedObject> {
  const { outcome, written } = await database.write(() => {
    const [sourceBucket, bucket] = [from.bucket(), to.bucket()];
    if (!bucket) return { outcome: 'no-bucket' as const };
    const source = sourceBucket && objects.find(sourceBucket, from.key);
    const memory = placementTag(bucket.name, to.key);
    const there = objects.find(bucket, to.key)?.headers[ATTEMPT_HEADER] === mark || source?.tags[memory] === mark;
    if (there) return { outcome: 'there' as const };
    if (!source) return { outcome: 'missing' as const };
    if (source.eTag !== from.eTag) return { outcome: 'changed' as const };

    const { size, eTag, checksum, parts, contentType } = source;
    const description = { contentType, headers: { [ATTEMPT_HEADER]: mark }, tags: {} };
    const object = { ...description, key: to.key, size, eTag, checksum, ...(parts !== undefined && { parts }) };
    const content = { kind: 'shared', content: source.content } as const;
    const now = objects.putInTransaction(bucket, { ...object, content }, { event: 's3:ObjectCreated:Copy', origin });
    objects.setTagsInTransaction(sourceBucket, from.key, { ...source.tags, [memory]: mark });
    return { outcome: 'placed' as const, written: now };
  });
  if (written) objects.afterCommit(written);
  return outcome;
}

/** The tag that remembers a place. A key may be longer than what a tag is called. */
const placementTag = (bucket: string, key: string) => `oscar-placed-${hash('sha256', `${bucket}/${key}`).slice(0, 32)}`;
