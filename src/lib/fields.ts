/** Reads what another program wrote, strictly. */

/** What was read, or why it cannot be, one sentence per problem. Junk is an answer of this kind, never an exception. */
export type Read<T> = { readonly value: T } | { readonly problems: readonly string[] };

/** One field: what it has to be, in words, and its value if it is that. */
export interface Field<T> {
  readonly is: string;
  readonly read: (raw: unknown) => T | undefined;
  /** May it be absent? */
  readonly optional?: true;
}

type Shape<T> = { readonly [K in keyof T]-?: Field<Exclude<T[K], undefined>> };

/** Reads every field of an object; what else is in it is left alone, so that later versions may say more. */
export function fields<T extends object>(shape: Shape<T>): (raw: unknown) => Read<T> {
  const known = Object.entries<Field<unknown>>(shape);
  return (raw) => {
    if (!isObject(raw)) return { problems: ['is not an object'] };
    const value: Record<string, unknown> = {};
    const problems: string[] = [];
    for (const [name, field] of known) {
      const isThere = Object.hasOwn(raw, name);
      if (!isThere && field.optional) continue;
      const read = isThere ? field.read(raw[name]) : undefined;
      if (read === undefined) problems.push(`${name} is not ${field.is}`);
      else value[name] = read;
    }
    return problems.length > 0 ? { problems } : { value: value as T };
  };
}

/** What was read, as something else. */
export function mapRead<T, R>(read: Read<T>, change: (value: T) => R): Read<R> {
  return 'value' in read ? { value: change(read.value) } : read;
}

export function textField(is: string, form: RegExp): Field<string> {
  return { is, read: (raw) => (typeof raw === 'string' && form.test(raw) ? raw : undefined) };
}

/** One of some words. */
export function oneOfField<const T extends string>(...words: readonly T[]): Field<T> {
  return { is: `one of ${words.join(', ')}`, read: (raw) => words.find((word) => word === raw) };
}

/** It may be left out; if it is there, it has to be what it is. */
export function optional<T>(field: Field<T>): Field<T> {
  return { ...field, optional: true };
}

/** An object within an object. */
export function nested<T extends object>(is: string, read: (raw: unknown) => Read<T>): Field<T> {
  return {
    is,
    read: (raw) => {
      const inner = read(raw);
      return 'value' in inner ? inner.value : undefined;
    },
  };
}

export const sha256Field = textField('a SHA-256 in lower-case hexadecimal', /^[0-9a-f]{64}$/);

export const wholeNumberField: Field<number> = {
  is: 'a whole number',
  read: (raw) => (Number.isSafeInteger(raw) && Number(raw) >= 0 ? Number(raw) : undefined),
};

export const flagField: Field<boolean> = {
  is: 'true or false',
  read: (raw) => (typeof raw === 'boolean' ? raw : undefined),
};

/** Longer than any address that people write; several stand in one header, which servers cut at 16 KiB. */
const LONGEST_URL = 2048;

export const urlField: Field<string> = {
  is: 'an http or https URL without a password',
  read: (raw) => {
    const parsed = typeof raw === 'string' && raw.length <= LONGEST_URL ? URL.parse(raw) : null;
    const legal = parsed && /^https?:$/.test(parsed.protocol) && parsed.username === '' && parsed.password === '';
    return legal ? String(raw) : undefined;
  },
};

export const objectField: Field<Readonly<Record<string, unknown>>> = {
  is: 'an object',
  read: (raw) => (isObject(raw) ? raw : undefined),
};

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
