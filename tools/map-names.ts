import { posix } from 'node:path';

export interface MapProblem {
  readonly line: number;
  readonly message: string;
}

/**
 * Functions and types that a row of the map names though none of the files that the row links to declares them. Only names with
 * an upper-case letter count: a plain word may be a word.
 */
export function undeclaredNames(
  page: string,
  folder: string,
  read: (path: string) => string | undefined,
): MapProblem[] {
  return page.split('\n').flatMap((row, index) => {
    if (!row.startsWith('|')) return [];
    const files = [...row.matchAll(/\]\((\.\.\/[^)#]+\.ts)\)/g)].map(([, path = '']) => posix.join(folder, path));
    const sources = files.map(read).filter((source) => source !== undefined);
    if (sources.length === 0) return [];
    return namesIn(row)
      .filter((name) => !name.split('.').every((part) => sources.some((source) => declares(source, part))))
      .map((name) => ({ line: index + 1, message: `${name} is declared in none of ${files.join(', ')}` }));
  });
}

/** Names of code in backticks in the cells after the first, which says what the row is about. */
function namesIn(row: string): string[] {
  const [, , ...cells] = row.split(/(?<!\\)\|/);
  return [...cells.join('|').matchAll(/`([A-Za-z]\w*(?:\.#?\w+)*)`/g)]
    .map(([, name = '']) => name)
    .filter((name) => /[a-z][A-Z]|^[A-Z][a-z]/.test(name));
}

function declares(source: string, name: string): boolean {
  const escaped = name.replace(/[$#]/g, String.raw`\$&`);
  const declaration = String.raw`(?:function\*?|const|class|interface|type)\s+${escaped}\b`;
  const member = String.raw`^\s*(?:readonly |async |static |get )*\*?${escaped}\s*(?:<[^>]*>)?[(=:]`;
  return new RegExp(`${declaration}|${member}`, 'm').test(source);
}
