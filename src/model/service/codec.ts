import type { TSchema } from 'typebox';
import type { Leniency } from './schema.ts';

/**
 * Decodes and encodes values by a schema. Decoding is as lenient as Go's decoder, because clients rely on it: keys in any
 * letter case, the last of several spellings wins, unknown keys are ignored, `null` equals absent (docs/go-manager.md#http).
 * Types are strict, except for what the schema names in `accepts`.
 */

export interface Problem {
  /** `input[0].path`; empty for the whole. */
  readonly path: string;
  readonly message: string;
}

/** The parts of JSON Schema that our schemas are made of. */
interface Shape {
  type: 'object' | 'array' | 'string' | 'boolean' | 'integer' | 'number';
  properties?: Record<string, Shape>;
  required?: string[];
  patternProperties?: Record<string, Shape>;
  items?: Shape;
  maxItems?: number;
  maxProperties?: number;
  default?: unknown;
  accepts?: Leniency;
  keepZero?: boolean;
}

const CONVERSIONS: Record<Leniency, (value: unknown) => unknown> = {
  number: (value) => (typeof value === 'number' ? String(value) : value),
  single: (value) => (typeof value === 'number' ? (value === 0 ? [] : [value]) : value),
  mode: unfoldMode,
};

/** `delegation: {mode, weights}` is stored as a string plus a key `weights`, because Go clients fail on an object. */
function unfoldMode(value: unknown): unknown {
  if (!isObject(value)) return value;
  const key = Object.keys(value).find((name) => name.toLowerCase() === 'delegation');
  const delegation = key === undefined ? undefined : value[key];
  if (key === undefined || !isObject(delegation)) return value;
  return { ...value, [key]: delegation['mode'] ?? '', weights: delegation['weights'] ?? value['weights'] };
}

/** Decodes a request. A list or map that is too long is a problem, and entries beyond its limit are not read. */
export function decode(schema: TSchema, value: unknown, problems: Problem[]): unknown {
  return decodeAt(schema as unknown as Shape, value, '', { problems, limited: true });
}

/** Decodes a stored value: nothing is rejected, and no list or map is cut. */
export function decodeStored(schema: TSchema, value: unknown): unknown {
  return decodeAt(schema as unknown as Shape, value, '', { problems: [], limited: false });
}

interface Reading {
  readonly problems: Problem[];
  /** Whether limits on the lengths of lists and maps apply. */
  readonly limited: boolean;
}

/** Values in the order of the schema, empty optional ones left out, maps sorted by key as Go does. */
export function encode(schema: TSchema, value: unknown): unknown {
  return encodeAt(schema as unknown as Shape, value);
}

function decodeAt(shape: Shape, raw: unknown, path: string, reading: Reading): unknown {
  const value = shape.accepts ? CONVERSIONS[shape.accepts](raw) : raw;
  if (value === undefined || value === null) return zero(shape);
  switch (shape.type) {
    case 'object':
      if (!isObject(value)) return mismatch(shape, value, path, reading);
      return shape.properties ? decodeBlock(shape, value, path, reading) : decodeMap(shape, value, path, reading);
    case 'array':
      if (!Array.isArray(value)) return mismatch(shape, value, path, reading);
      return decodeList(shape, value, path, reading);
    case 'string':
      if (typeof value !== 'string') return mismatch(shape, value, path, reading);
      if (value.includes('\0') || !value.isWellFormed()) {
        reading.problems.push({ path, message: 'has a NUL character or half of a surrogate pair' });
      }
      return value === '' ? zero(shape) : value;
    case 'boolean':
      return typeof value === 'boolean' ? value : mismatch(shape, value, path, reading);
    case 'integer':
      return Number.isSafeInteger(value) ? value : mismatch(shape, value, path, reading);
    case 'number':
      return Number.isFinite(value) ? value : mismatch(shape, value, path, reading);
  }
}

function decodeList(shape: Shape, value: readonly unknown[], path: string, reading: Reading): unknown {
  const items = itemShape(shape);
  const read = value.slice(0, limitFor(shape.maxItems, value.length, path, reading));
  return read.map((item, index) => decodeAt(items, item, `${path}[${index}]`, reading));
}

/** How many of `length` entries are read. Reports a problem if that is not all of them. */
function limitFor(most: number | undefined, length: number, path: string, reading: Reading): number {
  if (!reading.limited || most === undefined || length <= most) return length;
  reading.problems.push({ path, message: `has ${length} entries, and at most ${most} are allowed` });
  return most;
}

function decodeBlock(shape: Shape, value: Record<string, unknown>, path: string, reading: Reading): unknown {
  const given = new Map<string, unknown>();
  const spellings = spellingsFor(shape);
  for (const [key, item] of Object.entries(value)) {
    const name = spellings.get(key.toLowerCase());
    if (name !== undefined) given.set(name, item);
  }
  const result: Record<string, unknown> = {};
  for (const [name, property] of Object.entries(shape.properties ?? {})) {
    const item = given.get(name);
    if (isOptional(shape, name) && (item === undefined || item === null)) continue;
    const decoded = decodeAt(property, item, path === '' ? name : `${path}.${name}`, reading);
    if (!isOptional(shape, name) || !isEmpty(property, decoded)) result[name] = decoded;
  }
  return result;
}

function decodeMap(shape: Shape, value: Record<string, unknown>, path: string, reading: Reading): unknown {
  const item = valueShape(shape);
  const keys = Object.keys(value);
  const read = keys.slice(0, limitFor(shape.maxProperties, keys.length, path, reading));
  // Object.fromEntries creates own properties of any name, including `__proto__`.
  return Object.fromEntries(read.map((key) => [key, decodeAt(item, value[key], `${path}.${key}`, reading)]));
}

function encodeAt(shape: Shape, value: unknown): unknown {
  if (shape.type === 'array') return (value as unknown[]).map((item) => encodeAt(itemShape(shape), item));
  if (shape.type !== 'object') return value;
  const object = value as Record<string, unknown>;
  if (!shape.properties) {
    return Object.fromEntries(
      Object.keys(object)
        .toSorted()
        .map((key) => [key, encodeAt(valueShape(shape), object[key])]),
    );
  }
  const result: Record<string, unknown> = {};
  for (const [name, property] of Object.entries(shape.properties)) {
    const item = object[name];
    if (isOptional(shape, name) && isEmpty(property, item)) continue;
    result[name] = encodeAt(property, item);
  }
  return result;
}

/** Go's zero value, or the schema's default. */
function zero(shape: Shape): unknown {
  if (shape.default !== undefined) return shape.default;
  switch (shape.type) {
    case 'string':
      return '';
    case 'boolean':
      return false;
    case 'integer':
    case 'number':
      return 0;
    case 'array':
      return [];
    case 'object':
      return Object.fromEntries(
        (shape.required ?? []).map((name) => [name, zero(shape.properties?.[name] ?? { type: 'string' })]),
      );
  }
}

/** A block that is present is never empty, whatever it contains, because it is a pointer in Go. */
function isEmpty(shape: Shape, value: unknown): boolean {
  if (value === undefined) return true;
  if (shape.keepZero) return false;
  if (Array.isArray(value)) return value.length === 0;
  if (isObject(value)) return !shape.properties && Object.keys(value).length === 0;
  return value === '' || value === 0 || value === false;
}

function mismatch(shape: Shape, value: unknown, path: string, reading: Reading): unknown {
  reading.problems.push({ path, message: `must be ${ARTICLES[shape.type]}, not ${describeType(value)}` });
  return zero(shape);
}

const ARTICLES: Record<Shape['type'], string> = {
  object: 'an object',
  array: 'a list',
  string: 'a string',
  boolean: 'true or false',
  integer: 'a whole number',
  number: 'a number',
};

function describeType(value: unknown): string {
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'an object';
  if (typeof value === 'string') return 'a string';
  return JSON.stringify(value);
}

const spellingCache = new WeakMap<Shape, Map<string, string>>();

function spellingsFor(shape: Shape): Map<string, string> {
  let spellings = spellingCache.get(shape);
  if (!spellings) {
    spellings = new Map(Object.keys(shape.properties ?? {}).map((name) => [name.toLowerCase(), name]));
    spellingCache.set(shape, spellings);
  }
  return spellings;
}

function isOptional(shape: Shape, name: string): boolean {
  return !(shape.required ?? []).includes(name);
}

function itemShape(shape: Shape): Shape {
  if (!shape.items) throw new TypeError('a list in the schema has no item type');
  return shape.items;
}

function valueShape(shape: Shape): Shape {
  const [values] = Object.values(shape.patternProperties ?? {});
  if (!values) throw new TypeError('a map in the schema has no value type');
  return values;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
