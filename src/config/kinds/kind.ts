import { closest } from '../../lib/closest.ts';

/** Returns the text of a file, or throws like `readFileSync`. */
export type Files = (name: string) => string;

/** An unparsed value: text from the environment; text, list or map from YAML, where scalars stay as written. */
export type Raw = string | null | Raw[] | Map<string, Raw>;

/** `path` is the path inside the setting; `text` completes the sentence: `is "x"; accepted is …`. */
export interface SettingProblem {
  readonly path: string;
  readonly text: string;
}

/** An empty list of problems means that the value depends on another setting, which is invalid. */
export type Parsed<T> = { readonly value: T } | { readonly problems: readonly SettingProblem[] };

export interface Context {
  readonly files: Files;
  /** The parsed value of another setting, by its variable; undefined if it has none or is invalid. */
  valueOf(variable: string): unknown;
}

/** The type of a setting's value. */
export interface SettingKind<T> {
  /** Completes the sentence "accepted is …", in problems and in the documentation. */
  readonly accepts: string;
  parse(raw: Raw, context: Context): Parsed<T>;
}

/** An empty value counts as not set. */
export const isEmptyValue = (raw: Raw | undefined): raw is '' | null | undefined =>
  raw === undefined || raw === null || (typeof raw === 'string' && raw.trim() === '');

export function problem(text: string, path = ''): { problems: SettingProblem[] } {
  return { problems: [{ path, text }] };
}

export function refusedSetting(raw: Raw, accepts: string): { problems: SettingProblem[] } {
  return problem(`is ${shown(raw)}; accepted is ${accepts}`);
}

/** Shorter: the operator does not recognise the value. Longer: a pasted certificate fills the screen. */
const LONGEST_SHOWN = 80;

/** A value as it is shown in a problem, without credentials in URLs. */
function shown(raw: Raw): string {
  if (raw === null) return 'empty';
  if (Array.isArray(raw)) return 'a list';
  if (raw instanceof Map) return 'a map';
  const safe = raw.replace(/\/\/[^/]*@/g, '//[secret]@');
  return JSON.stringify(safe.length > LONGEST_SHOWN ? `${safe.slice(0, LONGEST_SHOWN)}…` : safe);
}

/** Hides what follows a colon: in `{secret_key:abc}`, without a space after the colon, the secret is part of the key. */
export function shownKey(key: string): string {
  return key.replace(/:.*/s, ':…');
}

/** A single value; `read` returns undefined for a text that it does not accept. */
export function scalar<T>(accepts: string, read: (text: string) => T | undefined): SettingKind<T> {
  return {
    accepts,
    parse(raw) {
      const value = typeof raw === 'string' ? read(raw.trim()) : undefined;
      return value === undefined ? refusedSetting(raw, accepts) : { value };
    },
  };
}

/** A list separated by commas, or a YAML list. Empty items are ignored, so that a trailing comma is allowed. */
export function listOf<T>(accepts: string, read: (item: string) => T | undefined): SettingKind<readonly T[]> {
  return {
    accepts,
    parse(raw) {
      const items = typeof raw === 'string' ? raw.split(',') : raw;
      if (!Array.isArray(items)) return refusedSetting(raw, accepts);
      const value: T[] = [];
      const wrong: Raw[] = [];
      for (const item of items.filter((each) => !isEmptyValue(each))) {
        const read1 = typeof item === 'string' ? read(item.trim()) : undefined;
        if (read1 === undefined) wrong.push(item);
        else value.push(read1);
      }
      return wrong.length === 0
        ? { value }
        : problem(`contains ${wrong.map(shown).join(', ')}; accepted is ${accepts}`);
    },
  };
}

/** One key of a map. The parser, the types and the documentation are derived from it. */
export interface SettingField {
  readonly name: string;
  readonly kind: SettingKind<unknown>;
  readonly meaning: string;
  /** As an operator would write it. */
  readonly default?: string;
  readonly required?: true;
}

export type SettingFields = Readonly<Record<string, SettingField>>;

type ValueOf<F> = F extends { readonly kind: SettingKind<infer T> }
  ? F extends { readonly default: unknown } | { readonly required: true }
    ? T
    : T | undefined
  : never;

/** The parsed values of these fields. */
export type Values<F> = { readonly [K in keyof F]: ValueOf<F[K]> };

/** A map with exactly these keys. */
export function record<const F extends SettingFields>(fields: F): SettingKind<Values<F>> {
  const names = Object.values(fields).map((field) => field.name);
  const accepts = `a map with ${names.join(', ')}`;
  return {
    accepts,
    parse(raw, context) {
      if (!(raw instanceof Map)) return problem(`is not ${accepts}`);
      const values: Record<string, unknown> = {};
      const problems: SettingProblem[] = [...raw.keys()]
        .filter((key) => !names.includes(key))
        .map((key) => ({ path: `.${shownKey(key)}`, text: `is not known${closest(key, names)}` }));
      for (const [key, field] of Object.entries(fields)) {
        const parsed = readField(field, raw.get(field.name), context);
        if ('value' in parsed) values[key] = parsed.value;
        else problems.push(...under(field.name, parsed.problems));
      }
      return problems.length === 0 && isComplete(values, fields) ? { value: values } : { problems };
    },
  };
}

/** Whether every field has a value. Then the object has the type that the fields describe. */
export function isComplete<F extends object>(values: object, fields: F): values is Values<F> {
  return Object.keys(fields).every((key) => key in values);
}

function readField(field: SettingField, given: Raw | undefined, context: Context): Parsed<unknown> {
  const raw = isEmptyValue(given) ? field.default : given;
  if (raw !== undefined) return field.kind.parse(raw, context);
  return field.required ? problem(`is missing; accepted is ${field.kind.accepts}`) : { value: undefined };
}

/** A map from ids to values. `entry` returns the kind of value for an id, or the problem of an invalid id. */
export function mapOf<T>(
  accepts: string,
  entry: (id: string) => SettingKind<T> | string,
): SettingKind<ReadonlyMap<string, T>> {
  return {
    accepts,
    parse(raw, context) {
      if (!(raw instanceof Map)) return problem(`is not ${accepts}`);
      const values = new Map<string, T>();
      const problems: SettingProblem[] = [];
      for (const [id, value] of raw) {
        const kind = entry(id);
        const parsed = typeof kind === 'string' ? problem(kind) : kind.parse(value, context);
        if ('value' in parsed) values.set(id, parsed.value);
        else problems.push(...under(id, parsed.problems));
      }
      return problems.length > 0 ? { problems } : { value: values };
    },
  };
}

const under = (key: string, problems: readonly SettingProblem[]): SettingProblem[] =>
  problems.map(({ path, text }) => ({ path: `.${shownKey(key)}${path}`, text }));
