import type { ContentFiles } from './content-files.ts';
import type { Database } from './database.ts';
import type { Objects } from './objects.ts';
import type { Uploads } from './uploads.ts';

/** Objects removed in one transaction: few enough that other requests get their turn. */
const AT_ONCE = 500;

/** Removes what a removed bucket has left, bit by bit. Begun again at the next start when it was interrupted. */
export async function emptyBucket(
  {
    database,
    objects,
    uploads,
    files,
  }: { database: Database; objects: Objects; uploads: Uploads; files: ContentFiles },
  bucket: number,
  stopped: () => boolean,
): Promise<void> {
  const page = database.query<{ key: string; size: number; content: number | null }>(
    `SELECT key, size, content FROM object WHERE bucket = ? LIMIT ${AT_ONCE}`,
  );
  const dropBucket = database.query('DELETE FROM bucket WHERE id = ?');
  while (!stopped() && (await uploads.forget({ bucket })));
  while (!stopped()) {
    const { removed, empty } = await database.write(() => {
      const rows = page.all(bucket);
      if (rows.length === 0) dropBucket.run(bucket);
      return { removed: rows.flatMap((row) => objects.removeNow({ id: bucket }, row)), empty: rows.length === 0 };
    });
    files.remove(removed);
    if (empty) return;
  }
}
