import { hash } from 'node:crypto';
import type { Bucket } from './bucket.ts';
import type { Database } from './database.ts';
import type { Origin } from './event.ts';
import { MARK } from './mark.ts';
import type { Objects } from './objects.ts';

export interface Place {
  readonly from: { readonly bucket: () => Bucket | undefined; readonly key: string; readonly eTag: string };
  readonly to: { readonly bucket: () => Bucket | undefined; readonly key: string };
  /** Of whoever places it, as the metadata `oscar-attempt`. */
  readonly mark: string;
  readonly origin: Origin;
}

/** `there`: this was done before. `changed`, `missing`: the source is not the one that was meant. */
export type Placed = 'placed' | 'there' | 'changed' | 'missing' | 'no-bucket';

/**
 * Copies an object to its final place, once. The source remembers, in the same transaction, where it was placed: whoever
 * does it again writes nothing, also when somebody has replaced or removed the final object since.
 */
export async function placeObject(
  { database, objects }: { database: Database; objects: Objects },
  { from, to, mark, origin }: Place,
): Promise<Placed> {
  const { outcome, written } = await database.write(() => {
    const [sourceBucket, bucket] = [from.bucket(), to.bucket()];
    if (!bucket) return { outcome: 'no-bucket' as const };
    const source = sourceBucket && objects.find(sourceBucket, from.key);
    const memory = memoryOf(bucket.name, to.key);
    const there = objects.find(bucket, to.key)?.headers[MARK] === mark || source?.tags[memory] === mark;
    if (there) return { outcome: 'there' as const };
    if (!source) return { outcome: 'missing' as const };
    if (source.eTag !== from.eTag) return { outcome: 'changed' as const };

    const { size, eTag, checksum, parts, contentType } = source;
    const description = { contentType, headers: { [MARK]: mark }, tags: {} };
    const object = { ...description, key: to.key, size, eTag, checksum, ...(parts !== undefined && { parts }) };
    const content = { kind: 'shared', content: source.content } as const;
    const now = objects.putNow(bucket, { ...object, content }, { event: 's3:ObjectCreated:Copy', origin });
    objects.setTagsNow(sourceBucket, from.key, { ...source.tags, [memory]: mark });
    return { outcome: 'placed' as const, written: now };
  });
  if (written) objects.settled(written);
  return outcome;
}

/** The tag that remembers a place. A key may be longer than what a tag is called. */
const memoryOf = (bucket: string, key: string) => `oscar-placed-${hash('sha256', `${bucket}/${key}`).slice(0, 32)}`;
