import { StoreError } from '../../../ports/index.ts';
import { PLACED_PREFIX } from './place-object.ts';
import type { S3Api } from './s3-api.ts';

/** The tag by which the manager recognizes its own bucket. */
const OURS = { oscar_manager: 'staging' };

const PAGE = 1_000;

/** Creates the staging bucket. A bucket without the tag is accepted if it is empty: a manager died before it set the tag. */
export async function ensureStagingBucket(s3: S3Api): Promise<void> {
  const { staging } = s3;
  await s3.makeBucket(staging);
  const tags = await s3.tags(staging);
  if (tags?.['oscar_manager'] === OURS.oscar_manager) return;
  const content = tags ? undefined : await s3.list(staging, '', 1);
  if (content?.objects.length !== 0) {
    const owner = tags?.['owner'] ? ` belongs to "${tags['owner']}"` : ' has objects that the manager has not written';
    throw new StoreError(
      'conflict',
      `the bucket "${staging}"${owner}, and the manager needs one of that name for itself: ` +
        'have what it holds moved to another bucket and remove it, or choose another name with OSCAR_STAGING_BUCKET',
    );
  }
  await s3.setTags(staging, OURS);
}

/**
 * Removes all objects below the prefix, then their placement records: a manager that was paused during a copy must not find
 * a source without its record. The last object is removed at the very end: while it exists, a later clean-up lists the prefix
 * and finds the records too.
 */
export async function removeObjectsUnder(bucket: string, prefix: string, s3: S3Api): Promise<void> {
  const unfinished = (await s3.uploads(bucket)).filter(({ key }) => key.startsWith(prefix));
  for (const { key, id } of unfinished) await s3.abortUpload({ bucket, key }, id);
  const last = await removeAllButLast(bucket, prefix, s3);
  if (bucket === s3.staging) {
    const memory = await removeAllButLast(bucket, `${PLACED_PREFIX}${prefix}`, s3);
    await s3.removeAll(bucket, memory);
  }
  await s3.removeAll(bucket, last);
}

/** Resolves to the key of the object that is left, if there was any. */
async function removeAllButLast(bucket: string, prefix: string, s3: S3Api): Promise<string[]> {
  for (;;) {
    const page = await s3.list(bucket, prefix, PAGE);
    const keys = (page?.objects ?? []).map(({ key }) => key);
    if (!page?.more) {
      await s3.removeAll(bucket, keys.slice(0, -1));
      return keys.slice(-1);
    }
    await s3.removeAll(bucket, keys);
  }
}
