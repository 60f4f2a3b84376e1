import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isTest } from './import-rules.ts';
import { layoutProblems } from './layout.ts';
import { RATCHETS, ratchetProblem } from './ratchets.ts';
import { readSourceFiles } from './source-files.ts';
import { duplicateFileNames, duplicateNames } from './structure.ts';

/**
 * Checks names and folders of `src` against the ratchets, and the layout in CONTRIBUTING.md against the folders that are
 * there: `node tools/check-structure.ts`. Tests and their fixtures are not counted.
 */

const root = join(import.meta.dirname, '..');
const sources = new Map([...readSourceFiles(root)].filter(([file]) => !isTest(file)));

const ratchets = [
  ratchetProblem(RATCHETS.duplicateNames, duplicateNames(sources)),
  ratchetProblem(RATCHETS.duplicateFileNames, duplicateFileNames(sources.keys())),
];

const page = 'CONTRIBUTING.md';
const folders = { repository: foldersIn('.').filter((folder) => !ignored().has(folder)), src: foldersIn('src') };
const layout = layoutProblems(readFileSync(join(root, page), 'utf8'), folders);

for (const problem of [...ratchets, ...layout.map((each) => `${page}, Layout: ${each}`)]) {
  if (problem === undefined) continue;
  process.stderr.write(`${problem.trimEnd()}\n`);
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
