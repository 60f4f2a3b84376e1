import { isMap, isScalar, isSeq, LineCounter, parseDocument } from 'yaml';
import { closest } from '../../base/closest.ts';
import { fdlSchema, type JsonSchema } from '../../service/json-schema.ts';

/** Written by oscar-cli's users since its first version, and by now without meaning: not a slip of the pen. */
const OLD_KEYS = new Set(['replicas', 'delegation', 'rescheduler_threshold', 'image_rules']);

/**
 * Keys of an FDL file that no manager reads, each with its place: a manager ignores them (contract §1.0), so that
 * whoever mistyped one would wonder why it has no effect.
 */
export function unknownKeys(name: string, text: string): string[] {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, stringKeys: true });
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
