import { randomFillSync } from 'node:crypto';
import type { Version } from '../version.ts';

const BYTES = 12;

/** Got from the system at once, because each time costs ten times what a version costs otherwise. */
const pool = Buffer.alloc(BYTES * 256);
let used = pool.length;

/** Random rather than counted, so that it does not repeat when a name is used again or a backup is restored. */
export function newVersion(): Version {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  return pool.toString('base64url', used, (used += BYTES)) as Version;
}
