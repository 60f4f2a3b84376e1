import { fdlSchema, type JsonSchema } from '../src/model/service/index.ts';
import { anchorOf } from './check-docs-page.ts';
import { code, table } from './markdown-table.ts';

const BEGIN = '<!-- Made by tools/generate-docs.ts from src/model/service/schema.ts; changes made here are lost. -->';
const END = '<!-- Here ends what is made. -->';

/** A page with the tables of all keys of a definition between its two marks. */
export function withFdlTables(page: string): string {
  const [before = '', rest = ''] = page.split(`${BEGIN}\n`);
  const [, after] = rest.split(`${END}\n`);
  if (after === undefined) throw new Error(`the page has no ${BEGIN} with ${END} behind it`);
  return `${before}${BEGIN}\n\n${fdlTables()}\n\n${END}\n${after}`;
}

type Keys = Readonly<Record<string, JsonSchema>>;

/** The block that is the value of a key, or of each entry of its list or map. */
interface Block {
  /** `federation.members[]`, `clusters.<id>`. */
  readonly path: string;
  readonly keys: Keys;
}

/** One table for the service, and one for each kind of block that it may have. */
export function fdlTables(): string {
  const { service } = fdlSchema()['$defs'] as { service: JsonSchema };
  const required = service['required'] as string[];
  const blocks = blocksIn({ path: '', keys: keysOf(service) });
  return blocks
    .map(({ path, keys }) => {
      const rows = Object.entries(keys).map(([key, schema]) => {
        const absent = path === '' && required.includes(key) ? 'required' : defaultOf(schema);
        return [code(key), valueOf(schema, pathTo(key, path), blocks), meaningOf(schema, pathTo(key, path)), absent];
      });
      const title = path === '' ? 'The service' : code(path);
      return `### ${title}\n\n${table(['Key', 'Value', 'Meaning', 'If left out'], rows)}`;
    })
    .join('\n\n');
}

/** The block and all below it that have a table: not what is refused so far, and not the same keys twice. */
function blocksIn(block: Block, before: Block[] = []): Block[] {
  if (before.some((each) => isAlike(each, block))) return before;
  const found = isGroup(block) ? before : [...before, block];
  return Object.entries(block.keys).reduce((all, [key, schema]) => {
    const below = blockIn(schema, pathTo(key, block.path));
    return below && !isNotYet(schema, below.path) ? blocksIn(below, all) : all;
  }, found);
}

function blockIn(schema: JsonSchema, path: string): Block | undefined {
  const { properties, items, additionalProperties } = schema as Record<string, JsonSchema | undefined>;
  if (properties) return { path, keys: properties as Keys };
  if (items?.['properties']) return { path: `${path}[]`, keys: keysOf(items) };
  return additionalProperties?.['properties']
    ? { path: `${path}.<id>`, keys: keysOf(additionalProperties) }
    : undefined;
}

const keysOf = (schema: JsonSchema) => schema['properties'] as Keys;

const pathTo = (key: string, path: string) => (path === '' ? key : `${path}.${key}`);

const isAlike = (one: Block, other: Block) => JSON.stringify(one.keys) === JSON.stringify(other.keys);

/** `storage_providers` has maps and nothing else, whose own tables say it all. */
const isGroup = ({ keys }: Block) =>
  Object.entries(keys).every(([key, schema]) => blockIn(schema, key)?.path === `${key}.<id>`);

/** Blocks that the schema accepts and `findUnsupported` in `src/services/admit.ts` rejects. */
const NOT_YET = ['mount', 'storage_providers.onedata.<id>', 'storage_providers.rucio.<id>'];

const descriptionOf = ({ description }: JsonSchema) => (typeof description === 'string' ? description : '');
const saysNotYet = (schema: JsonSchema) => /not supported yet/i.test(descriptionOf(schema));
const isNotYet = (schema: JsonSchema, path: string) => NOT_YET.includes(path) || saysNotYet(schema);

function meaningOf(schema: JsonSchema, path: string): string {
  const text = descriptionOf(schema);
  const remark = isNotYet(schema, path) && !saysNotYet(schema) ? '. Not supported yet' : '';
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${remark}`;
}

function valueOf(schema: JsonSchema, path: string, blocks: readonly Block[]): string {
  const below = blockIn(schema, path);
  const told = below && blocks.find((each) => isAlike(each, below));
  return told ? `[${code(told.path)}](#${anchorOf(code(told.path))})` : kindOf(schema);
}

function kindOf(schema: JsonSchema): string {
  const {
    type,
    items,
    additionalProperties,
    anyOf,
    enum: words,
    properties,
  } = schema as Partial<Record<string, unknown>>;
  if (Array.isArray(anyOf)) return anyOf.map((form: JsonSchema) => kindOf(form)).join(', or ');
  if (Array.isArray(words))
    return words
      .filter((word) => word !== '')
      .map(code)
      .join(', ');
  if (properties) return 'mode' in (properties as Keys) ? code('{mode, weights}') : 'block';
  if (items) return `list of ${nameOf(items as JsonSchema)}`;
  if (additionalProperties) return `map to ${nameOf(additionalProperties as JsonSchema)}`;
  return nameOf({ type });
}

const NAMES: Readonly<Record<string, string>> = {
  string: 'text',
  boolean: '`true` or `false`',
  integer: 'whole number',
  number: 'number',
};

const nameOf = ({ type }: JsonSchema) => NAMES[String(type)] ?? 'block';

function defaultOf(schema: JsonSchema): string {
  const forms = [schema, ...((schema['anyOf'] as JsonSchema[] | undefined) ?? [])];
  const value = forms.map((form) => form['default']).find((each) => each !== undefined);
  if (value !== undefined) return code(typeof value === 'string' ? value : JSON.stringify(value));
  return schema['type'] === 'boolean' ? code('false') : '';
}
