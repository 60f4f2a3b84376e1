import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';

/** The text of each TypeScript file below `src`, by its path relative to the repository. */
export function readSourceFiles(root: string): Map<string, string> {
  const files = new Map<string, string>();
  for (const entry of readdirSync(join(root, 'src'), { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !entry.name.endsWith('.ts')) continue;
    const path = join(entry.parentPath, entry.name);
    files.set(relative(root, path).replaceAll('\\', '/'), readFileSync(path, 'utf8'));
  }
  return files;
}
