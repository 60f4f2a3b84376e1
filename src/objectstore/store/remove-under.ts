import { S3Error } from '../errors.ts';
import type { Bucket } from './bucket.ts';
import type { Objects } from './objects.ts';
import type { Uploads } from './uploads.ts';

/** Removed in one transaction: few enough that other requests get their turn. */
const AT_ONCE = 500;

/** Removes every object whose key begins with the prefix, and every upload that was to become one. */
export async function removeUnder(
  { objects, uploads }: { objects: Objects; uploads: Uploads },
  bucket: () => Bucket,
  prefix: string,
): Promise<void> {
  // Uploads first: one that is completed in between is an object that is found below.
  for (;;) {
    const begun = uploads.list(bucket(), { prefix, keyMarker: '', idMarker: '', limit: AT_ONCE });
    await Promise.all(begun.map(({ key, id }) => uploads.abort(bucket, key, id).catch(unlessOver)));
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

function unlessOver(error: unknown): void {
  if (!(error instanceof S3Error && error.code === 'NoSuchUpload')) throw error;
}
