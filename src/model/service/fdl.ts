import { dirname, isAbsolute, join } from 'node:path/posix';
import { isMap, isScalar, isSeq, LineCounter, type Node, parseDocument, visit, type YAMLMap } from 'yaml';
import { ServiceError } from './errors.ts';

/** One service of an FDL file, as it is sent to a manager. */
export interface FdlService {
  /** The id of its cluster; absent in the form `- name: …`, for which the caller chooses the cluster. */
  readonly clusterId?: string;
  /** The body of a create or an update. */
  readonly body: Record<string, unknown>;
  /** Its line in the file, for messages. */
  readonly line: number;
}

export interface FdlSource {
  /** The path of the file: used in messages, and as the base of relative script paths. */
  readonly name: string;
  readonly text: string;
  /** The text of a script file, by path. */
  readonly readScript: (path: string) => string;
}

/**
 * Reads an FDL file (docs/fdl.md#both-list-forms): `functions.oscar` is a list of `<cluster>: {…}` or, as the
 * quickstart writes it, of services; `clusters` and `storage_providers` at the top apply to every service.
 * Errors have line and column.
 */
export function readFdl(source: FdlSource): FdlService[] {
  const lines = new LineCounter();
  // With `uniqueKeys` the parser compares each key with all others, in quadratic time; `repeatedKey` uses a set instead.
  const document = parseDocument(source.text, { lineCounter: lines, uniqueKeys: false, stringKeys: true });
  const fail = (message: string, node?: unknown): never => {
    throw new ServiceError('invalid-fdl', `${source.name}${position(node, lines)}: ${message}`);
  };

  const [broken] = document.errors;
  if (broken) {
    const { line, col } = lines.linePos(broken.pos[0]);
    throw new ServiceError('invalid-fdl', `${source.name}:${line}:${col}: ${broken.message.split('\n')[0]}`, {
      cause: broken,
    });
  }
  visit(document, {
    Map: (_, map) => {
      const again = repeatedKey(map);
      if (again) fail('map keys must be unique', again);
    },
  });
  const functions = document.getIn(['functions', 'oscar'], true);
  if (!isSeq(functions)) return fail('functions.oscar must be a list of services', functions ?? document.contents);

  const shared = Object.fromEntries(
    ['clusters', 'storage_providers'].flatMap((key) => {
      const node = document.get(key, true);
      if (node === undefined) return [];
      return isMap(node) ? [[key, node.toJS(document)]] : fail(`${key} must be a map`, node);
    }),
  );

  return functions.items.map((item) => {
    if (!isMap(item)) return fail('a service must be a map', item);
    const [first] = item.items;
    const byCluster = item.items.length === 1 && first !== undefined && isMap(first.value);
    const node: Node = byCluster && isMap(first.value) ? first.value : item;
    const service = node.toJS(document) as Record<string, unknown>;
    const script = isMap(node) ? node.get('script', true) : undefined;
    if (!isScalar(script) || typeof script.value !== 'string' || script.value === '') {
      return fail('script must name a file', script ?? node);
    }
    const clusterId = byCluster && isScalar(first.key) ? String(first.key.value) : undefined;
    return {
      ...(clusterId !== undefined && { clusterId }),
      body: {
        ...merged(shared, service),
        ...(clusterId !== undefined && { cluster_id: clusterId }),
        script: readScript(source, script.value, (message) => fail(message, script)),
      },
      line: lines.linePos(node.range?.[0] ?? 0).line,
    };
  });
}

/** The first key that occurs twice in the map. */
function repeatedKey({ items }: YAMLMap): unknown {
  const seen = new Set<unknown>();
  return items.find(({ key }) => {
    const { size } = seen;
    return seen.add(isScalar(key) ? key.value : key).size === size;
  })?.key;
}

/** Keys of the service take precedence over the shared keys of the file. */
function merged(shared: Record<string, unknown>, service: Record<string, unknown>): Record<string, unknown> {
  const both = Object.keys(shared).filter((key) => isRecord(shared[key]) && isRecord(service[key]));
  const joined = both.map((key) => [key, { ...(shared[key] as object), ...(service[key] as object) }]);
  return { ...shared, ...service, ...Object.fromEntries(joined) };
}

function readScript(source: FdlSource, file: string, fail: (message: string) => never): string {
  try {
    return source.readScript(isAbsolute(file) ? file : join(dirname(source.name), file));
  } catch (cause) {
    return fail(`script "${file}" cannot be read: ${cause instanceof Error ? cause.message : 'unknown error'}`);
  }
}

function position(node: unknown, lines: LineCounter): string {
  const offset = (node as Node | null | undefined)?.range?.[0];
  if (offset === undefined) return '';
  const { line, col } = lines.linePos(offset);
  return `:${line}:${col}`;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
