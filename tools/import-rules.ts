import { posix } from 'node:path';
import { type Edge, folderCycles } from './folder-cycles.ts';
import type { Import } from './read-imports.ts';

/** The imports of each source file; paths are relative to the repository. */
export type Imports = ReadonlyMap<string, readonly Import[]>;

export interface Violation {
  readonly file: string;
  readonly specifier: string;
  /** What the import breaks, as a sentence. */
  readonly rule: string;
}

type Layer =
  | 'base'
  | 'outbound'
  | 'service'
  | 'config'
  | 'ports'
  | 'supervisor'
  | 'core'
  | 'adapter'
  | 'objectstore'
  | 'http'
  | 'cli'
  | 'main';

const LAYERS: ReadonlyMap<string, Layer> = new Map<string, Layer>([
  ['base', 'base'],
  ['outbound', 'outbound'],
  ['service', 'service'],
  ['config', 'config'],
  ['cluster', 'ports'],
  ['supervisor', 'supervisor'],
  ['identity', 'core'],
  ['storage', 'core'],
  ['catalog', 'core'],
  ['federation', 'core'],
  ['delegation', 'core'],
  ['jobs', 'core'],
  ['objectstore', 'objectstore'],
  ['http', 'http'],
  ['cli', 'cli'],
  ['main', 'main'],
]);

/** Folders that own a port: each of their sub-folders is an adapter. */
const PORT_OWNERS = ['cluster', 'storage'];

/** Where a file of `src` belongs. */
interface Place {
  readonly layer: Layer | undefined;
  /** Under `src`; an adapter has one of its own, such as `cluster/local`. */
  readonly folder: string;
  /** Is it the face of its folder: `index.ts`, or `config.ts`? */
  readonly face: boolean;
}

function placeOf(file: string): Place {
  const [, top = '', ...below] = file.split('/');
  if (below.length === 0) return { layer: LAYERS.get(top.slice(0, -3)), folder: top.slice(0, -3), face: true };
  const [sub = '', ...rest] = below;
  const adapter = PORT_OWNERS.includes(top) && rest.length > 0;
  return {
    layer: adapter ? 'adapter' : LAYERS.get(top),
    folder: adapter ? `${top}/${sub}` : top,
    face: (adapter ? rest : below).join('/') === 'index.ts',
  };
}

type Target = Place & { readonly typeOnly: boolean };

/** A face that is in one of these layers. */
const faceOf = (target: Target, ...layers: Layer[]) =>
  target.face && target.layer !== undefined && layers.includes(target.layer);

const foundation = ({ layer }: Target) => layer === 'base' || layer === 'service';
const ports = ({ layer }: Target) => layer === 'ports';

/** What each layer may import beyond its own folder, and that as a sentence. */
const RULES: Readonly<Record<Layer, { may: (target: Target, from: Place) => boolean; rule: string }>> = {
  base: { may: () => false, rule: 'base imports nothing of ours' },
  outbound: { may: ({ layer }) => layer === 'base', rule: 'outbound imports only base' },
  service: { may: ({ layer }) => layer === 'base', rule: 'service imports only base' },
  config: { may: foundation, rule: 'config imports only base and service' },
  ports: { may: foundation, rule: 'the ports in cluster/ import only base and service' },
  supervisor: {
    may: (target) => foundation(target) || ports(target) || faceOf(target, 'outbound'),
    rule: 'supervisor imports base, service, the ports in cluster/ and index.ts of outbound',
  },
  core: {
    may: (target) =>
      foundation(target) ||
      ports(target) ||
      faceOf(target, 'core', 'outbound') ||
      (target.typeOnly && faceOf(target, 'config')),
    rule: 'the core imports base, service, the ports in cluster/, types of config.ts, and index.ts of other folders',
  },
  adapter: {
    may: (target, from) =>
      foundation(target) ||
      faceOf(target, 'objectstore', 'ports', 'supervisor', 'outbound') ||
      target.folder === posix.dirname(from.folder),
    rule: 'an adapter imports only base, service, the folder of its port, and index.ts of cluster, objectstore, supervisor, outbound',
  },
  objectstore: { may: ({ layer }) => layer === 'base', rule: 'objectstore imports only base' },
  http: {
    may: (target) => foundation(target) || ports(target) || faceOf(target, 'core', 'config'),
    rule: 'http imports base, service, the ports in cluster/, config.ts, and index.ts of the folders of the core',
  },
  cli: {
    may: (target) =>
      foundation(target) ||
      ports(target) ||
      target.layer === 'http' ||
      faceOf(target, 'core', 'config', 'adapter', 'objectstore', 'supervisor', 'outbound'),
    rule: 'cli imports the folders of the core and adapters by their index.ts',
  },
  main: { may: ({ layer }) => layer === 'cli', rule: 'main.ts imports only cli' },
};

/** Tests put together what they like; what is tested does not know them. */
const isTest = (file: string) => /\.(test|conformance|fixture|arbitrary|child)\.ts$/.test(file);

export function violations(imports: Imports): Violation[] {
  const found: Violation[] = [];
  const edges: Edge[] = [];
  for (const [file, list] of imports) {
    for (const { specifier, typeOnly } of list.filter((each) => each.specifier.startsWith('.'))) {
      const target = posix.join(posix.dirname(file), specifier);
      const rule = broken(file, target, typeOnly);
      if (rule) found.push({ file, specifier, rule });
      else if (!isTest(file) && isSource(target)) {
        edges.push({ file, specifier, from: placeOf(file).folder, to: placeOf(target).folder });
      }
    }
  }
  return [...found, ...folderCycles(edges).flatMap(describeCycle)];
}

function describeCycle(cycle: Edge[]): Violation[] {
  const [first] = cycle;
  const way = cycle.map(({ to, file }) => `${to} (by ${file})`).join(' → ');
  return first ? [{ file: first.file, specifier: first.specifier, rule: `a cycle: ${first.from} → ${way}` }] : [];
}

const isSource = (file: string) => file.startsWith('src/');

function broken(file: string, target: string, typeOnly: boolean): string | undefined {
  if (isTest(file)) return undefined;
  if (target.startsWith('test/')) return 'only tests import from test/';
  if (!isSource(target))
    return target === 'package.json' ? undefined : 'src imports nothing from outside but package.json';
  if (isTest(target)) return 'only tests import tests';
  const from = placeOf(file);
  const to = { ...placeOf(target), typeOnly };
  if (from.folder === to.folder) return undefined;
  const unknown = [from, to].find(({ layer }) => layer === undefined);
  if (!from.layer || unknown) return `src/${unknown?.folder} has no layer yet: name it in tools/import-rules.ts`;
  const { may, rule } = RULES[from.layer];
  return may(to, from) ? undefined : rule;
}
