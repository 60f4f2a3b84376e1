export interface Import {
  /** As written: `../base/secret.ts`, `node:fs`. */
  readonly specifier: string;
  /** Nothing of it is left when the program runs. */
  readonly typeOnly: boolean;
}

const NAMES = String.raw`[\w$*{},\s]+?`;
const STATIC = new RegExp(
  String.raw`^(?:import|export)\b(?<names>${NAMES})\bfrom\s*['"](?<specifier>[^'"]+)['"]`,
  'gm',
);
const BARE = /^import\s*['"](?<specifier>[^'"]+)['"]/gm;
const DYNAMIC = /\bimport\(\s*['"](?<specifier>[^'"]+)['"]\s*[,)]/g;
const COMMENT_LINE = /^\s*(?:\/\/|\/\*|\*).*$/gm;

const specifier = (match: RegExpMatchArray) => match.groups?.['specifier'] ?? '';

/**
 * The imports of a source file: `import … from`, `export … from`, `import '…'` and `import('…')` with a literal. Relies
 * on the formatter: statements begin at the beginning of a line, lines of comments with a slash or an asterisk.
 */
export function readImports(source: string): Import[] {
  const code = source.replace(COMMENT_LINE, '');
  return [
    ...[...code.matchAll(STATIC)].map((match) => ({
      specifier: specifier(match),
      typeOnly: isTypeOnly(match.groups?.['names'] ?? ''),
    })),
    ...[...code.matchAll(BARE), ...code.matchAll(DYNAMIC)].map((match) => ({
      specifier: specifier(match),
      typeOnly: false,
    })),
  ];
}

/** `type { A }`, or `{ type A, type B }`. */
function isTypeOnly(names: string): boolean {
  if (/^\s*type\s+[\w${*]/.test(names) && !/^\s*type\s+from\b/.test(names)) return true;
  const inBraces = /^\s*\{(?<list>.*)\}\s*$/s.exec(names)?.groups?.['list'];
  const items = inBraces?.split(',').filter((item) => item.trim() !== '') ?? [];
  return items.length > 0 && items.every((item) => /^\s*type\s/.test(item));
}
