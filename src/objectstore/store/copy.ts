import { S3Error } from '../errors.ts';
import type { Bucket } from './bucket.ts';
import type { Database } from './database.ts';
import type { Description, ObjectRecord } from './object.ts';
import type { Objects, Writing } from './objects.ts';

export interface Copy {
  readonly from: { readonly bucket: () => Bucket; readonly key: string };
  readonly to: { readonly bucket: () => Bucket; readonly key: string };
  /** What the copy is described by; throws when the source is not the one that was meant. */
  readonly describe: (source: ObjectRecord) => Description;
  readonly writing: Writing;
  /** The source goes in the same transaction. */
  readonly move?: boolean;
}

/** Copies within the store. The bytes are shared, so that a copy costs the same whatever its size. */
export async function copyObject(
  { database, objects, remove }: { database: Database; objects: Objects; remove: (files: readonly string[]) => void },
  { from, to, describe, writing, move = false }: Copy,
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
    const now = objects.putNow(bucket, { ...object, content }, writing);
    return { written: now, files: move ? objects.removeNow(sourceBucket, source) : [] };
  });
  remove(files);
  return objects.settled(written);
}
