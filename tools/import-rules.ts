import { posix } from 'node:path';
import { type Edge, folderCycles } from './folder-cycles.ts';
import type { Import } from './read-imports.ts';

/** The imports of each source file; paths are relative to the repository. */
export type Imports = ReadonlyMap<string, readonly Import[]>;

export interface Violation {
  readonly file: string;
  readonly specifier: string;
  /** The rule that the import breaks, as a sentence. */
  readonly rule: string;
}

/** The layers of the core, lowest first: each may import those before it. */
const LAYERS = [
  'lib',
  'model',
  'ports',
  'identity',
  'buckets',
  'services',
  'jobs',
  'peers',
  'federation',
  'delegation',
  'http',
  'manager',
  'cli',
  'main.ts',
] as const;

/** What the other top folders may import, and who may import them. */
const BESIDE: Readonly<
  Record<string, { readonly imports: readonly string[]; readonly importedBy: readonly string[] }>
> = {
  config: { imports: ['lib', 'model'], importedBy: LAYERS.slice(LAYERS.indexOf('identity')) },
  's3-server': { imports: ['lib', 'model'], importedBy: ['adapters', 'manager', 'cli'] },
  staging: { imports: ['lib', 'model'], importedBy: ['adapters', 'manager', 'cli'] },
  adapters: { imports: ['lib', 'model', 'ports', 's3-server', 'staging'], importedBy: ['manager'] },
};

/**
 * Folders that are imported through their `index.ts` alone, by everything outside of them. `lib` is a toolbox, imported
 * file by file.
 */
const DOORS = [
  'lib/http',
  'model/service',
  'model/job',
  'ports',
  'config',
  'identity',
  'buckets',
  'services',
  'jobs',
  'peers',
  'federation',
  'delegation',
  'delegation/policies',
  'http',
  's3-server',
  'staging',
  'manager',
  'adapters/sqlite',
  'adapters/kubernetes',
  'adapters/local-runner',
  'adapters/object-stores/embedded',
  'adapters/object-stores/minio',
  'adapters/object-stores/s3',
];

/** Files that put the parts of their folder together, as `index.ts` does: they may import all of its sub-folders. */
const COMPOSITION = new Set(['src/http/server.ts']);

/** Tests may import anything; nothing else may import a test. */
export const isTest = (file: string) =>
  /\.(test|conformance|fixture|arbitrary|child|schedule)\.ts$/.test(file) || file.startsWith('src/ports/conformance/');

const isSource = (file: string) => file.startsWith('src/');

export function violations(imports: Imports): Violation[] {
  const found: Violation[] = [];
  const edges: Edge[] = [];
  for (const [file, list] of imports) {
    if (isTest(file)) continue;
    for (const { specifier } of list.filter((each) => each.specifier.startsWith('.'))) {
      const target = posix.join(posix.dirname(file), specifier);
      const rule = brokenRule(file, target);
      if (rule) found.push({ file, specifier, rule });
      else if (isSource(target) && topOf(file) === topOf(target) && !isComposition(file)) {
        edges.push({ file, specifier, from: posix.dirname(file), to: posix.dirname(target) });
      }
    }
  }
  return [...found, ...folderCycles(edges).flatMap(describeCycle)];
}

const isComposition = (file: string) => posix.basename(file) === 'index.ts' || COMPOSITION.has(file);

function describeCycle(cycle: Edge[]): Violation[] {
  const [first] = cycle;
  const path = cycle.map(({ to, file }) => `${to} (by ${file})`).join(' → ');
  return first ? [{ file: first.file, specifier: first.specifier, rule: `a cycle: ${first.from} → ${path}` }] : [];
}

function topOf(file: string): string {
  return file.split('/')[1] ?? '';
}

function brokenRule(file: string, target: string): string | undefined {
  if (target.startsWith('test/')) return 'only tests import from test/';
  if (!isSource(target)) {
    return target === 'package.json' ? undefined : 'src imports nothing from outside but package.json';
  }
  if (isTest(target)) return 'only tests import tests';
  return brokenLayer(topOf(file), topOf(target)) ?? brokenDoor(file, target);
}

function brokenLayer(from: string, to: string): string | undefined {
  if (from === to) return undefined;
  const unknown = [from, to].find((each) => rankOf(each) < 0 && !(each in BESIDE));
  if (unknown !== undefined) return `src/${unknown} has no layer yet: name it in tools/import-rules.ts`;
  const special = BESIDE[from];
  if (special) return special.imports.includes(to) ? undefined : `${from} imports only ${special.imports.join(', ')}`;
  const beside = BESIDE[to];
  if (beside) return beside.importedBy.includes(from) ? undefined : `${to} is not for ${from}`;
  return rankOf(to) < rankOf(from) ? undefined : `${from} is below ${to}: it must not import it`;
}

const rankOf = (folder: string) => (LAYERS as readonly string[]).indexOf(folder);

function brokenDoor(file: string, target: string): string | undefined {
  const door = DOORS.find((each) => target.startsWith(`src/${each}/`) && !file.startsWith(`src/${each}/`));
  if (door === undefined || target === `src/${door}/index.ts`) return undefined;
  return `src/${door} is imported through its index.ts`;
}
