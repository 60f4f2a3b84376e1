import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';

export const BLOCK_BYTES = 512;
/** The minimum that an entry of a directory counts, so that a million empty files are not free. */
const ENTRY_BYTES = 512;

/** Bytes on the disk below these directories; stops early above the limit. Files may vanish while it runs. */
export async function measureDiskUse(directories: readonly string[], limit: number): Promise<number> {
  let total = 0;
  const pending = [...directories];
  for (let path = pending.pop(); path !== undefined && total <= limit; path = pending.pop()) {
    for (const entry of await readdir(path, { withFileTypes: true }).catch(() => [])) {
      const child = join(path, entry.name);
      total += ENTRY_BYTES + ((await lstat(child).catch(() => undefined))?.blocks ?? 0) * BLOCK_BYTES;
      if (entry.isDirectory()) pending.push(child);
      if (total > limit) break;
    }
  }
  return total;
}
