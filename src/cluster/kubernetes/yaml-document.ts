import { isMap, isScalar, isSeq, type Node, parseDocument, stringify } from 'yaml';
import { ServiceSchema } from '../../service/index.ts';

/** The parts of a schema that say where a text is expected. */
interface Shape {
  type?: string;
  properties?: Record<string, Shape>;
  patternProperties?: Record<string, Shape>;
  items?: Shape;
}

/**
 * Every text in quotes: the Python supervisor reads YAML 1.1, to which a plain `yes` is true and a plain `1:30` is 90;
 * to us and to Go they are texts.
 */
export function writeYaml(document: unknown): string {
  return stringify(document, {
    lineWidth: 0,
    defaultStringType: 'QUOTE_DOUBLE',
    defaultKeyType: 'PLAIN',
    compat: 'yaml-1.1',
    aliasDuplicateObjects: false,
  });
}

/**
 * Reads a definition as another program or a person wrote it. Where the schema has a text, a plain `0.20` or `true` is
 * that text and neither a number nor a truth value.
 */
export function readYaml(text: string): unknown {
  const document = parseDocument(text, { uniqueKeys: false, stringKeys: true, logLevel: 'silent' });
  const [broken] = document.errors;
  if (broken) throw new SyntaxError(broken.message.split('\n')[0] ?? 'unreadable');
  const toJs = (node: Node) => node.toJS(document, { maxAliasCount: 100 });

  const convert = (node: unknown, shape: Shape | undefined): unknown => {
    if (isMap(node) && shape?.type === 'object') {
      const [anyValue] = Object.values(shape.patternProperties ?? {});
      const entries = node.items.map(({ key, value }) => {
        const name = String(isScalar(key) ? key.value : key);
        return [name, convert(value, shape.properties?.[name] ?? anyValue)];
      });
      return Object.fromEntries(entries);
    }
    if (isSeq(node) && shape?.type === 'array') return node.items.map((item) => convert(item, shape.items));
    if (isScalar(node) && shape?.type === 'string' && node.value !== null) {
      return typeof node.value === 'string' ? node.value : node.source;
    }
    return node === null || node === undefined ? undefined : toJs(node as Node);
  };
  return convert(document.contents, ServiceSchema);
}
