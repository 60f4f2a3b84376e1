import { readFileSync } from 'node:fs';
import { isMap, isScalar, isSeq, LineCounter, parseDocument } from 'yaml';
import { closest } from '../../lib/closest.ts';
import { type FdlService, fdlSchema, type JsonSchema, readFdl, ServiceError } from '../../model/service/index.ts';
import { ClientError } from './errors.ts';
import type { Terminal } from './terminal.ts';

/** A service of a file that is ready to be sent somewhere. */
export interface FileService extends FdlService {
  readonly name: string;
  readonly body: Record<string, unknown> & FederatedBody;
}

/** What the command line looks at itself; the rest is for the manager to judge. */
interface FederatedBody {
  readonly federation?: {
    readonly members?: readonly { readonly cluster_id?: string; readonly service_name?: string }[];
  };
  readonly clusters?: Readonly<Record<string, unknown>>;
  readonly environment?: { readonly secrets?: Readonly<Record<string, unknown>> };
}

/** Reads an FDL file; what has no effect in it is warned about, what cannot be is an error with its place. */
export function readFdlFile(file: string, terminal: Terminal): FileService[] {
  const text = textOf(file);
  const services = parsed(file, text);
  for (const warning of unknownKeys(file, text)) terminal.warn(warning);
  const seen = new Map<string, number>();
  return services.map((service) => {
    const { name } = service.body;
    if (typeof name !== 'string' || name === '') {
      throw new ClientError('bad-input', `${file}:${service.line}: name is required`);
    }
    const place = `${service.clusterId ?? ''}/${name}`;
    const before = seen.get(place);
    if (before !== undefined) {
      throw new ClientError(
        'bad-input',
        `${file}:${service.line}: "${name}" is in line ${before} already: give one of them another name`,
      );
    }
    seen.set(place, service.line);
    return { ...service, name, body: service.body };
  });
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    throw new ClientError('bad-input', `${file} cannot be read: ${(cause as Error).message}`, { cause });
  }
}

function parsed(name: string, text: string): FdlService[] {
  try {
    return readFdl({ name, text, readScript: (path) => readFileSync(path, 'utf8') });
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    const [, place] = /^(.*?:\d+:\d+): Tabs are not allowed/.exec(error.message) ?? [];
    const message = place ? `${place}: there is a tab where YAML wants spaces` : error.message;
    throw new ClientError('bad-input', message, { cause: error });
  }
}

/** Written by oscar-cli's users since its first version, and by now without meaning: not a slip of the pen. */
const OLD_KEYS = new Set(['replicas', 'delegation', 'rescheduler_threshold', 'image_rules']);

/**
 * Keys of an FDL file that no manager reads, each with its place: a manager ignores them (docs/go-manager.md#http), so
 * that whoever mistyped one would wonder why it has no effect.
 */
export function unknownKeys(name: string, text: string): string[] {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, uniqueKeys: false, stringKeys: true });
  const schema = fdlSchema();
  const definitions = schema['$defs'] as Record<string, JsonSchema>;
  const found: string[] = [];

  function walk(node: unknown, given: JsonSchema, path: string): void {
    const shape = variantFor(node, given);
    if (isSeq(node)) {
      for (const [index, item] of node.items.entries())
        walk(item, (shape['items'] ?? {}) as JsonSchema, `${path}[${index}]`);
      return;
    }
    if (!isMap(node)) return;
    const properties = shape['properties'] as Record<string, JsonSchema> | undefined;
    const others = shape['additionalProperties'] as JsonSchema | undefined;
    for (const { key, value } of node.items) {
      const word = isScalar(key) ? String(key.value) : '';
      const below = path === '' ? word : `${path}.${word}`;
      const known = Object.entries(properties ?? {}).find(([each]) => each.toLowerCase() === word.toLowerCase());
      if (known) walk(value, known[1], below);
      else if (others) walk(value, others, below);
      else if (properties && !OLD_KEYS.has(word)) {
        const at = lines.linePos(isScalar(key) ? (key.range?.[0] ?? 0) : 0);
        const like = closest(word, Object.keys(properties));
        found.push(`${name}:${at.line}:${at.col}: "${below}" is not known and has no effect${like}`);
      }
    }
  }

  /** A service stands by itself, or under the id of its cluster: it is the first if it has a key of one. */
  function variantFor(node: unknown, given: JsonSchema): JsonSchema {
    const shape = typeof given['$ref'] === 'string' ? (definitions['service'] ?? {}) : given;
    const variants = shape['anyOf'] as JsonSchema[] | undefined;
    if (!variants) return shape;
    const [first = {}, second = first] = variants;
    if (!isMap(node)) return isSeq(node) ? (variants.find(({ type }) => type === 'array') ?? first) : first;
    if (!('$ref' in first)) return variants.find(({ type }) => type === 'object') ?? first;
    const [pair] = node.items;
    return node.items.length === 1 && isMap(pair?.value) ? second : variantFor(node, first);
  }

  walk(document.contents, schema, '');
  return found;
}
