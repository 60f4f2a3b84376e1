import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { readImports } from './read-imports.ts';

/** Properties, and the numbers that `npm run test:long` raises. */
const COUNTS = /['"]fast-check['"]|OSCAR_TEST_(?:RUNS|ROUNDS|UPLOADS|LONG|SEED)\b/;

/**
 * The test files in these folders that a big count makes a difference to: they, or fixtures that they import, have
 * properties, rounds, or a seed. All others would only do once more what `npm test` does.
 */
export function countedTests(folders: readonly string[]): string[] {
  const known = new Map<string, boolean>();
  const counts = (file: string): boolean => {
    const before = known.get(file);
    if (before !== undefined) return before;
    known.set(file, false);
    const source = readFileSync(file, 'utf8');
    const found =
      COUNTS.test(source) ||
      readImports(source)
        .filter(({ specifier, typeOnly }) => !typeOnly && /^\..*\.ts$/.test(specifier))
        .map(({ specifier }) => join(dirname(file), specifier))
        // Tests of this very tool have imports in their texts.
        .some((path) => existsSync(path) && counts(path));
    known.set(file, found);
    return found;
  };
  return folders
    .flatMap((folder) => readdirSync(folder, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile() && entry.name.endsWith('.test.ts'))
    .map(({ parentPath, name }) => join(parentPath, name))
    .filter(counts)
    .toSorted();
}
