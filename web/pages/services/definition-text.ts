import { type Document, isMap, isPair, isScalar, isSeq, LineCounter, type Node, parseDocument, stringify } from 'yaml';
import fdl from '../../../docs/fdl.schema.json' with { type: 'json' };

/**
 * The text of a definition in the editor. YAML contains JSON, so one parser reads both. The schema is the one of the project,
 * generated from the manager's own.
 */

export type Format = 'yaml' | 'json';

export const formatOf = (text: string): Format => (/^\s*[{[]/.test(text) ? 'json' : 'yaml');

export const toText = (definition: object, format: Format): string =>
  format === 'json' ? `${JSON.stringify(definition, null, 2)}\n` : stringify(definition, { lineWidth: 0 });

/** A part of a JSON Schema: the keywords that the schema of definitions uses. */
export interface Schema {
  readonly type?: string;
  readonly description?: string;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly additionalProperties?: Schema | boolean;
  readonly maxItems?: number;
  readonly maxProperties?: number;
}

export const SERVICE_SCHEMA: Schema = fdl.$defs.service;

/** A problem at a place in the text. Positions are offsets; `line` begins with 1. */
export interface TextProblem {
  readonly from: number;
  readonly to: number;
  readonly line: number;
  readonly severity: 'error' | 'warning';
  readonly message: string;
}

export interface ParsedText {
  /** Undefined unless the text is one object. */
  readonly definition: Readonly<Record<string, unknown>> | undefined;
  readonly problems: readonly TextProblem[];
}

export function parseText(text: string, schema: Schema = SERVICE_SCHEMA): ParsedText {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, maxAliasCount: 0 } as object);
  const problems: TextProblem[] = [];
  const report = (from: number, to: number, message: string, severity: TextProblem['severity'] = 'error') =>
    problems.push({ from, to: Math.max(from, to), line: lines.linePos(from).line, severity, message });
  for (const { pos, message } of document.errors)
    report(Math.min(pos[0], text.length), Math.min(pos[1], text.length), message);
  if (problems.length > 0) return { definition: undefined, problems };
  const root = document.contents;
  if (!isMap(root)) {
    report(0, text.length, 'a definition is an object: begin with "name: …"');
    return { definition: undefined, problems };
  }
  check(root, schema, [], report);
  return { definition: toObject(document), problems };
}

const toObject = (document: Document) => document.toJS({ maxAliasCount: 0 }) as Record<string, unknown>;

type Report = (from: number, to: number, message: string, severity?: TextProblem['severity']) => void;

function check(node: Node | null, schema: Schema, path: readonly string[], report: Report): void {
  const [from = 0, to = 0] = node?.range ?? [];
  const at = path.length === 0 ? '' : `${path.join('.')}: `;
  const kind = kindOf(node);
  if (kind === 'null') return;
  const options = schema.anyOf ?? [schema];
  const fitting = options.find((option) => fits(kind, option.type));
  if (!fitting) {
    report(from, to, `${at}must be ${options.map(({ type = 'a value' }) => article(type)).join(' or ')}`);
    return;
  }
  if (isScalar(node) && fitting.enum && node.value !== '' && !fitting.enum.includes(node.value)) {
    report(from, to, `${at}must be one of ${fitting.enum.filter((each) => each !== '').join(', ')}`);
  }
  if (isSeq(node)) {
    if (fitting.maxItems !== undefined && node.items.length > fitting.maxItems)
      report(from, to, `${at}has more than ${fitting.maxItems} entries`);
    for (const [index, item] of node.items.entries()) {
      if (fitting.items) check(item as Node, fitting.items, [...path, String(index)], report);
    }
  }
  if (isMap(node)) checkMap(node, fitting, path, report);
}

function checkMap(node: Node & { items: unknown[] }, schema: Schema, path: readonly string[], report: Report): void {
  const known = new Map(Object.entries(schema.properties ?? {}).map(([key, value]) => [key.toLowerCase(), value]));
  const found = new Set<string>();
  const at = path.length === 0 ? '' : `${path.join('.')}: `;
  for (const pair of node.items) {
    if (!isPair(pair) || !isScalar(pair.key)) continue;
    const key = String(pair.key.value);
    found.add(key.toLowerCase());
    const { additionalProperties: others } = schema;
    const part = known.get(key.toLowerCase()) ?? (typeof others === 'object' ? others : undefined);
    const [from = 0, to = 0] = pair.key.range ?? [];
    if (part) check(pair.value as Node | null, part, [...path, key], report);
    else if (known.size > 0)
      report(from, to, `${at}"${key}" is not a key of a definition: the manager ignores it`, 'warning');
  }
  const [from = 0] = node.range ?? [];
  for (const key of schema.required ?? []) if (!found.has(key)) report(from, from, `${at}"${key}" is missing`);
}

function kindOf(node: Node | null): string {
  if (isMap(node)) return 'object';
  if (isSeq(node)) return 'array';
  if (!isScalar(node) || node.value === null) return 'null';
  if (typeof node.value === 'number' || typeof node.value === 'bigint')
    return Number.isInteger(Number(node.value)) ? 'integer' : 'number';
  return typeof node.value;
}

const fits = (kind: string, wanted: string | undefined) =>
  wanted === undefined || wanted === kind || (wanted === 'number' && kind === 'integer');

const article = (type: string) => (/^[aeio]/.test(type) ? `an ${type}` : `a ${type}`);

export interface Suggestion {
  readonly label: string;
  readonly detail: string;
  readonly info: string;
  /** What is inserted. */
  readonly apply: string;
}

export interface Suggestions {
  /** Where the word begins that the suggestion replaces. */
  readonly from: number;
  readonly items: readonly Suggestion[];
}

const CURSOR = '\u2316cursor';

/**
 * Keys or values that fit at a position. The word there is replaced by a marker, and the parser, which tolerates unfinished
 * text, says in which object the marker is.
 */
export function suggest(text: string, position: number, schema: Schema = SERVICE_SCHEMA): Suggestions | undefined {
  const before = text.slice(0, position);
  const word = /[\w.-]*$/.exec(before)?.[0] ?? '';
  const from = position - word.length;
  const isJson = formatOf(text) === 'json';
  const quoted = before[from - 1] === '"';
  const start = quoted ? from - 1 : from;
  const lead = text.slice(0, start);
  const isKey = isJson ? /[{,]\s*$/.test(lead) : /(^|\n)\s*(- +)*$/.test(lead);
  const rest = text.slice(position).replace(quoted ? /^[\w.-]*"?/ : /^[\w.-]*/, '');
  const hasColon = /^[ \t]*:/.test(rest);
  const marked = `${lead}${isJson ? `"${CURSOR}"` : CURSOR}${isKey && !hasColon ? ': null' : ''}${rest}`;
  const found = findMarker(parseDocument(marked, { prettyErrors: false }).contents, schema);
  if (!found) return undefined;
  return {
    from,
    items: found.isKey ? keysOf(found, isJson && !quoted, hasColon) : valuesOf(found.schema, isJson && !quoted),
  };
}

interface Found {
  readonly isKey: boolean;
  /** Of the object that has the key, or of the value. */
  readonly schema: Schema;
  readonly present: ReadonlySet<string>;
}

function findMarker(node: unknown, schema: Schema): Found | undefined {
  const options = schema.anyOf ?? [schema];
  if (isScalar(node))
    return String(node.value).includes(CURSOR) ? { isKey: false, schema, present: new Set() } : undefined;
  if (isSeq(node)) {
    const items = options.find((option) => option.items)?.items ?? {};
    return node.items.map((item) => findMarker(item, items)).find((found) => found !== undefined);
  }
  if (!isMap(node)) return undefined;
  const own = options.find((option) => option.properties ?? option.additionalProperties) ?? {};
  const keys = node.items.map(({ key }) => (isScalar(key) ? String(key.value) : ''));
  if (keys.some((key) => key.includes(CURSOR))) return { isKey: true, schema: own, present: new Set(keys) };
  for (const [index, { value }] of node.items.entries()) {
    const key = keys[index] ?? '';
    const others = typeof own.additionalProperties === 'object' ? own.additionalProperties : {};
    const found = findMarker(value, own.properties?.[key] ?? others);
    if (found) return found;
  }
  return undefined;
}

function keysOf({ schema, present }: Found, quote: boolean, hasColon: boolean): Suggestion[] {
  return Object.entries(schema.properties ?? {})
    .filter(([key]) => !present.has(key))
    .map(([key, { type = '', description = '' }]) => ({
      label: key,
      detail: type,
      info: description,
      apply: `${quote ? JSON.stringify(key) : key}${hasColon ? '' : ': '}`,
    }));
}

function valuesOf(schema: Schema, quote: boolean): Suggestion[] {
  const options = schema.anyOf ?? [schema];
  const values = options.flatMap((option) => option.enum ?? (option.type === 'boolean' ? [true, false] : []));
  return values
    .filter((value) => value !== '')
    .map((value) => ({
      label: String(value),
      detail: '',
      info: schema.description ?? '',
      apply: quote && typeof value === 'string' ? JSON.stringify(value) : String(value),
    }));
}

/** The text with one value changed; comments and the order of keys stay. `undefined` removes the key. */
export function withValue(text: string, path: readonly (string | number)[], value: unknown): string {
  if (formatOf(text) === 'json') {
    const document = parseDocument(text);
    setIn(document, path, value);
    return toText(toObject(document), 'json');
  }
  const document = parseDocument(text);
  setIn(document, path, value);
  return document.toString({ lineWidth: 0 });
}

function setIn(document: Document, path: readonly (string | number)[], value: unknown): void {
  if (value === undefined) document.deleteIn(path);
  else document.setIn(path, document.createNode(value));
}
