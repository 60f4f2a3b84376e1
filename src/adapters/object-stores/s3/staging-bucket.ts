import { StoreError } from '../../../ports/index.ts';
import { PLACED_PREFIX } from './place-object.ts';
import type { S3Api } from './s3-api.ts';

/** How the manager knows its own bucket. */
const OURS = { oscar_manager: 'staging' };

const PAGE = 1_000;

/** Makes the manager's own bucket. One that died before it had its tag is empty. */
export async function ensureStagingBucket(s3: S3Api): Promise<void> {
  const { staging } = s3;
  await s3.makeBucket(staging);
  const tags = await s3.tags(staging);
  if (tags?.['oscar_manager'] === OURS.oscar_manager) return;
  const content = tags ? undefined : await s3.list(staging, '', 1);
  if (content?.objects.length !== 0) {
    const owner = tags?.['owner'] ? ` belongs to "${tags['owner']}"` : ' holds what the manager has not put there';
    throw new StoreError(
      'conflict',
      `the bucket "${staging}"${owner}, and the manager needs one of that name for itself: ` +
        'have what it holds moved to another bucket and remove it, or choose another name with OSCAR_STAGING_BUCKET',
    );
  }
  await s3.setTags(staging, OURS);
}

/**
 * Everything below the prefix, and what is remembered of it: after the objects, since who was held up over a copy must not find
 * the object and no memory. The last of them goes at the very end: as long as it is there, somebody who lists what is left
 * comes upon this again.
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

/** Resolves to the key of the one that is left, if there was any. */
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
