import { hash } from 'node:crypto';
import { S3Error } from '../lib/errors.ts';
import type { StoreBucket } from './buckets.ts';
import type { StoreDatabase } from './database.ts';
import type { EventOrigin } from './events.ts';
import {
  ATTEMPT_HEADER,
  INPUT_HEADER,
  type ObjectDescription,
  type ObjectRecord,
  type Objects,
  type WriteContext,
} from './objects.ts';

interface CopyRequest {
  readonly from: { readonly bucket: () => StoreBucket; readonly key: string };
  readonly to: { readonly bucket: () => StoreBucket; readonly key: string };
  /** The description of the copy; throws if the source is not the expected one. */
  readonly describe: (source: ObjectRecord) => ObjectDescription;
  readonly writing: WriteContext;
  /** Removes the source in the same transaction. */
  readonly move?: boolean;
}

/** Copies within the store. The copy shares the content, so its cost does not depend on the size. */
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
    if (same && move) throw new S3Error('InvalidRequest', 'An object cannot be moved to itself.');
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
  /** The attempt that places it, stored as the metadata `oscar-attempt`. */
  readonly mark: string;
  /** Stored as the metadata `oscar-input`. If it is set, an object with another label, or none, is not replaced. */
  readonly inputLabel: string | undefined;
  readonly origin: EventOrigin;
}

/**
 * `there`: it was placed before. `changed`, `missing`: the source is not the expected one. `conflict`: the object there has
 * another input label.
 */
export type PlacedObject = 'placed' | 'there' | 'changed' | 'missing' | 'no-bucket' | 'conflict';

/**
 * Copies an object to its final place, once. In the same transaction the source gets a tag with this place. So calling
 * it again writes nothing, even if the final object has been replaced or removed since.
 */
export async function placeObject(
  { database, objects }: { database: StoreDatabase; objects: Objects },
  { from, to, mark, inputLabel, origin }: PlaceRequest,
): Promise<PlacedObject> {
  const { outcome, written } = await database.write(() => {
    const [sourceBucket, bucket] = [from.bucket(), to.bucket()];
    if (!bucket) return { outcome: 'no-bucket' as const };
    const source = sourceBucket && objects.find(sourceBucket, from.key);
    const memory = placementTag(bucket.name, to.key);
    const existing = objects.find(bucket, to.key);
    const there = existing?.headers[ATTEMPT_HEADER] === mark || source?.tags[memory] === mark;
    if (there) return { outcome: 'there' as const };
    if (!source) return { outcome: 'missing' as const };
    if (source.eTag !== from.eTag) return { outcome: 'changed' as const };
    if (inputLabel !== undefined && existing && existing.headers[INPUT_HEADER] !== inputLabel) {
      return { outcome: 'conflict' as const };
    }

    const { size, eTag, checksum, parts, contentType } = source;
    const label = inputLabel === undefined ? {} : { [INPUT_HEADER]: inputLabel };
    const description = { contentType, headers: { [ATTEMPT_HEADER]: mark, ...label }, tags: {} };
    const object = { ...description, key: to.key, size, eTag, checksum, ...(parts !== undefined && { parts }) };
    const content = { kind: 'shared', content: source.content } as const;
    const now = objects.putInTransaction(bucket, { ...object, content }, { event: 's3:ObjectCreated:Copy', origin });
    objects.setTagsInTransaction(sourceBucket, from.key, { ...source.tags, [memory]: mark });
    return { outcome: 'placed' as const, written: now };
  });
  if (written) objects.afterCommit(written);
  return outcome;
}

/** The tag for a place. It is a hash, because a key may be longer than the name of a tag. */
const placementTag = (bucket: string, key: string) => `oscar-placed-${hash('sha256', `${bucket}/${key}`).slice(0, 32)}`;
