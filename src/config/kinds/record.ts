import { closest } from '../../base/closest.ts';
import { type Context, isBlank, type Kind, type Parsed, type Problem, problem, type Raw, shownKey } from './kind.ts';

/** One key of a map, described once: for reading, for types and for the documentation. */
export interface Field {
  readonly name: string;
  readonly kind: Kind<unknown>;
  readonly meaning: string;
  /** As one would write it. */
  readonly default?: string;
  readonly required?: true;
}

export type Fields = Readonly<Record<string, Field>>;

type ValueOf<F> = F extends { readonly kind: Kind<infer T> }
  ? F extends { readonly default: unknown } | { readonly required: true }
    ? T
    : T | undefined
  : never;

/** What reading those fields gives. */
export type Values<F> = { readonly [K in keyof F]: ValueOf<F[K]> };

/** A map with exactly these keys. */
export function record<const F extends Fields>(fields: F): Kind<Values<F>> {
  const names = Object.values(fields).map((field) => field.name);
  const accepts = `a map with ${names.join(', ')}`;
  return {
    accepts,
    parse(raw, context) {
      if (!(raw instanceof Map)) return problem(`is not ${accepts}`);
      const values: Record<string, unknown> = {};
      const problems: Problem[] = [...raw.keys()]
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

/** Has every field been read? Then the object has the type that the fields describe. */
export function isComplete<F extends object>(values: object, fields: F): values is Values<F> {
  return Object.keys(fields).every((key) => key in values);
}

function readField(field: Field, given: Raw | undefined, context: Context): Parsed<unknown> {
  const raw = isBlank(given) ? field.default : given;
  if (raw !== undefined) return field.kind.parse(raw, context);
  return field.required ? problem(`is missing; accepted is ${field.kind.accepts}`) : { value: undefined };
}

/** A map from ids to values of one kind, or of a kind that the id decides; `entry` gives a problem for a wrong id. */
export function mapOf<T>(accepts: string, entry: (id: string) => Kind<T> | string): Kind<ReadonlyMap<string, T>> {
  return {
    accepts,
    parse(raw, context) {
      if (!(raw instanceof Map)) return problem(`is not ${accepts}`);
      const values = new Map<string, T>();
      const problems: Problem[] = [];
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

const under = (key: string, problems: readonly Problem[]): Problem[] =>
  problems.map(({ path, text }) => ({ path: `.${shownKey(key)}${path}`, text }));
