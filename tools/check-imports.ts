import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { violations } from './import-rules.ts';
import { type Import, readImports } from './read-imports.ts';

/** Checks `src` against the rules of who may import whom: `node tools/check-imports.ts`. */

const root = join(import.meta.dirname, '..');

const imports = new Map<string, Import[]>();
for (const entry of readdirSync(join(root, 'src'), { recursive: true, withFileTypes: true })) {
  if (!entry.isFile() || !entry.name.endsWith('.ts')) continue;
  const path = join(entry.parentPath, entry.name);
  imports.set(relative(root, path).replaceAll('\\', '/'), readImports(readFileSync(path, 'utf8')));
}

for (const { file, specifier, rule } of violations(imports)) {
  process.stderr.write(`${file} imports ${specifier}: ${rule}\n`);
  process.exitCode = 1;
}
