import { S3Error } from '../lib/errors.ts';
import type { StoreBucket } from './buckets.ts';
import type { ContentFiles } from './contents.ts';
import type { StoreDatabase } from './database.ts';
import type { Objects } from './objects.ts';
import type { Uploads } from './uploads.ts';

/** Objects per transaction. More would delay other writes; fewer would cost more transactions. */
const AT_ONCE = 500;

/** Removes all objects whose key begins with the prefix, and all multipart uploads for such keys. */
export async function deletePrefix(
  { objects, uploads }: { objects: Objects; uploads: Uploads },
  bucket: () => StoreBucket,
  prefix: string,
): Promise<void> {
  // Uploads first: if an upload is completed in the meantime, its object is removed below.
  for (;;) {
    const { rows: begun } = uploads.list(bucket(), { prefix, delimiter: '', after: '', limit: AT_ONCE });
    await Promise.all(begun.map(({ key, id }) => uploads.abort(bucket, key, id).catch(ignoreNoSuchUpload)));
    if (begun.length === 0) break;
  }
  for (;;) {
    const { rows } = objects.list(bucket(), { prefix, delimiter: '', after: '', limit: AT_ONCE });
    if (rows.length === 0) return;
    await objects.remove(
      bucket,
      rows.map(({ key }) => key),
    );
  }
}

function ignoreNoSuchUpload(error: unknown): void {
  if (!(error instanceof S3Error && error.code === 'NoSuchUpload')) throw error;
}

/**
 * Removes the content of a removed bucket, in several transactions. If it is interrupted, the next start continues it.
 */
export async function emptyBucket(
  {
    database,
    objects,
    uploads,
    files,
  }: { database: StoreDatabase; objects: Objects; uploads: Uploads; files: ContentFiles },
  bucket: number,
  stopped: () => boolean,
): Promise<void> {
  const page = database.query<{ key: string; size: number; content: number | null }>(
    `SELECT key, size, content FROM object WHERE bucket = ? LIMIT ${AT_ONCE}`,
  );
  const dropBucket = database.query('DELETE FROM bucket WHERE id = ?');
  while (!stopped() && (await uploads.removeSome({ bucket })));
  while (!stopped()) {
    const { removed, empty } = await database.remove(() => {
      const rows = page.all(bucket);
      if (rows.length === 0) dropBucket.run(bucket);
      return {
        removed: rows.flatMap((row) => objects.removeInTransaction({ id: bucket }, row)),
        empty: rows.length === 0,
      };
    });
    files.remove(removed);
    if (empty) return;
  }
}
