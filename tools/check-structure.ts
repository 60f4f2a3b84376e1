import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isTest } from './import-rules.ts';
import { layoutProblems } from './layout.ts';
import { readSourceFiles } from './source-files.ts';
import { duplicateFileNames, duplicateNames } from './structure.ts';

/**
 * Checks that names of files and exports in `src` are unique, and the layout in CONTRIBUTING.md against the folders that
 * are there: `node tools/check-structure.ts`. Tests and their fixtures are not counted.
 */

const root = join(import.meta.dirname, '..');
const sources = new Map([...readSourceFiles(root)].filter(([file]) => !isTest(file)));

const names = [
  ...duplicateNames(sources).map((each) => `an exported name is declared in more than one file: ${each}`),
  ...duplicateFileNames(sources.keys()).map((each) => `a file name occurs more than once below a top folder: ${each}`),
];

const page = 'CONTRIBUTING.md';
const folders = { repository: foldersIn('.').filter((folder) => !ignored().has(folder)), src: foldersIn('src') };
const layout = layoutProblems(readFileSync(join(root, page), 'utf8'), folders);

for (const problem of [...names, ...layout.map((each) => `${page}, Layout: ${each}`)]) {
  process.stderr.write(`${problem}\n`);
  process.exitCode = 1;
}

function foldersIn(folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);
}

/** Folders that are no part of the repository. */
function ignored(): Set<string> {
  const lines = readFileSync(join(root, '.gitignore'), 'utf8').split('\n');
  return new Set(['.git', ...lines.filter((line) => line.endsWith('/')).map((line) => line.slice(0, -1))]);
}
