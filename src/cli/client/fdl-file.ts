import { readFileSync } from 'node:fs';
import { isMap, isScalar, isSeq, LineCounter, parseDocument } from 'yaml';
import { closest } from '../../lib/closest.ts';
import { type FdlService, fdlSchema, type JsonSchema, readFdl, ServiceError } from '../../model/service/index.ts';
import { ClientError } from './errors.ts';
import type { Terminal } from './terminal.ts';

/** A service of an FDL file, ready to be sent. */
export interface FileService extends FdlService {
  readonly name: string;
  readonly body: Record<string, unknown> & FederatedBody;
}

/** The keys that the command line reads. The manager validates the rest. */
interface FederatedBody {
  readonly federation?: {
    readonly members?: readonly { readonly cluster_id?: string; readonly service_name?: string }[];
  };
  readonly clusters?: Readonly<Record<string, unknown>>;
  readonly environment?: { readonly secrets?: Readonly<Record<string, unknown>> };
}

/** Reads an FDL file. Warns about unknown keys. Errors name the line. */
export function readFdlFile(file: string, terminal: Terminal): FileService[] {
  const text = readText(file);
  const services = parse(file, text);
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
        `${file}:${service.line}: "${name}" is already defined in line ${before}: rename one of them`,
      );
    }
    seen.set(place, service.line);
    return { ...service, name, body: service.body };
  });
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    throw new ClientError('bad-input', `${file} cannot be read: ${(cause as Error).message}`, { cause });
  }
}

function parse(name: string, text: string): FdlService[] {
  try {
    return readFdl({ name, text, readScript: (path) => readFileSync(path, 'utf8') });
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    const [, place] = /^(.*?:\d+:\d+): Tabs are not allowed/.exec(error.message) ?? [];
    const message = place ? `${place}: YAML does not allow tabs for indentation: use spaces` : error.message;
    throw new ClientError('bad-input', message, { cause: error });
  }
}

/** Keys of older versions of OSCAR that have no effect any more. They are no typing errors, so there is no warning. */
const OLD_KEYS = new Set(['replicas', 'delegation', 'rescheduler_threshold', 'image_rules']);

/** Warnings about keys that no manager reads. Managers ignore them (docs/go-manager.md#http), so a typing error has no effect. */
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
        found.push(`${name}:${at.line}:${at.col}: "${below}" is unknown and has no effect${like}`);
      }
    }
  }

  /** A service is written directly, or as the only entry under the id of its cluster. */
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
