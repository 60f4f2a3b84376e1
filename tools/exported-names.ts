const DECLARATION =
  /^(?<exported>export )?(?:declare )?(?:abstract )?(?:async )?(?:class|function\*?|const|let|var|interface|type|enum|namespace) (?<name>[\w$]+)/gm;
const LIST = /^export (?:type )?\{(?<names>[^}]*)\};?$/gm;

/**
 * The names of types and values that a source file declares and exports. A name it imports and exports again is declared
 * elsewhere and does not count. Relies on the formatter: a declaration begins at the beginning of a line.
 */
export function exportedNames(source: string): Set<string> {
  const declarations = [...source.matchAll(DECLARATION)].map(({ groups }) => ({
    name: groups?.['name'] ?? '',
    exported: groups?.['exported'] !== undefined,
  }));
  const listed = new Set([...source.matchAll(LIST)].flatMap(({ groups }) => localNames(groups?.['names'] ?? '')));
  return new Set(declarations.filter(({ name, exported }) => exported || listed.has(name)).map(({ name }) => name));
}

/** `a, type B, c as d` are `a`, `B` and `c`. */
function localNames(list: string): string[] {
  return list.split(',').flatMap((item) => /^\s*(?:type\s+)?(?<name>[\w$]+)/.exec(item)?.groups?.['name'] ?? []);
}
