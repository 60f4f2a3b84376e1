import { posix } from 'node:path';
import { exportedNames } from './exported-names.ts';

/** The text of each source file, by its path relative to the repository. */
export type Sources = ReadonlyMap<string, string>;

/** Exported names that more than one file declares. */
export function duplicateNames(sources: Sources): string[] {
  const declarations = [...sources].flatMap(([file, source]) =>
    [...exportedNames(source)].map((name) => ({ name, file })),
  );
  return duplicates(declarations);
}

/** File names that every folder may have. */
const COMMON_NAMES = new Set(['index.ts', 'errors.ts', 'types.ts']);

/** File names that occur more than once below the same top folder of `src`. */
export function duplicateFileNames(files: Iterable<string>): string[] {
  const named = [...files]
    .filter((file) => !COMMON_NAMES.has(posix.basename(file)))
    .map((file) => ({ name: posix.join('src', topFolder(file), '…', posix.basename(file)), file }));
  return duplicates(named);
}

/** The folder of `src` that a file is in; empty for a file of `src` itself. */
function topFolder(file: string): string {
  const [, top = '', ...below] = file.split('/');
  return below.length > 0 ? top : '';
}

/** Each name that several files have, with these files. */
function duplicates(things: readonly { readonly name: string; readonly file: string }[]): string[] {
  return [...Map.groupBy(things, ({ name }) => name)]
    .filter(([, group]) => group.length > 1)
    .map(
      ([name, group]) =>
        `${name}: ${group
          .map(({ file }) => file)
          .toSorted()
          .join(', ')}`,
    )
    .toSorted();
}
