import { join } from 'node:path';
import { violations } from './import-rules.ts';
import { readImports } from './read-imports.ts';
import { readSourceFiles } from './source-files.ts';

/** Checks `src` against the rules of who may import whom: `node tools/check-imports.ts`. */

const sources = readSourceFiles(join(import.meta.dirname, '..'));
const imports = new Map([...sources].map(([file, source]) => [file, readImports(source)]));

for (const { file, specifier, rule } of violations(imports)) {
  process.stderr.write(`${file} imports ${specifier}: ${rule}\n`);
  process.exitCode = 1;
}
