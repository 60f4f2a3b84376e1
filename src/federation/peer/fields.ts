import { Secret } from '../../base/secret.ts';
import { clusterIdProblem, serviceNameProblem } from '../../service/names.ts';

/** What was read, or why it cannot be, one sentence per problem. Junk is an answer of this kind, never an exception. */
export type Read<T> = { readonly value: T } | { readonly problems: readonly string[] };

/** One field: what it has to be, in words, and its value if it is that. */
export interface Field<T> {
  readonly is: string;
  readonly read: (raw: unknown) => T | undefined;
}

export function text(is: string, form: RegExp): Field<string> {
  return { is, read: (raw) => (typeof raw === 'string' && form.test(raw) ? raw : undefined) };
}

/** Reads every field of an object; what else is in it is left alone, so that later versions may say more. */
export function fields<T extends object>(shape: { readonly [K in keyof T]: Field<T[K]> }): (raw: unknown) => Read<T> {
  return (raw) => {
    if (!isObject(raw)) return { problems: ['is not an object'] };
    const entries = Object.entries<Field<unknown>>(shape).map(([name, field]) => ({
      name,
      field,
      value: Object.hasOwn(raw, name) ? field.read(raw[name]) : undefined,
    }));
    const problems = entries.flatMap(({ name, field, value }) =>
      value === undefined ? [`${name} is not ${field.is}`] : [],
    );
    if (problems.length > 0) return { problems };
    return { value: Object.fromEntries(entries.map(({ name, value }) => [name, value])) as T };
  };
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

export const uid = text('an id of letters, digits and hyphens', /^[A-Za-z0-9-]{1,64}$/);
export const instance = text('an id', /^[\x21-\x7e]{1,128}$/);
export const nonce = text('16 to 64 letters, digits, hyphens and underscores', /^[\w-]{16,64}$/);
export const sha256 = text('a SHA-256 in lower-case hexadecimal', /^[0-9a-f]{64}$/);

/** Stands in `If-Match`, between quotation marks. */
export const version = text('a version', /^[\x21\x23-\x7e]{1,256}$/);

export const revision: Field<number> = {
  is: 'a whole number',
  read: (raw) => (Number.isSafeInteger(raw) && Number(raw) >= 0 ? Number(raw) : undefined),
};

export const key: Field<Secret> = {
  is: 'a key of 16 to 256 printable characters',
  read: (raw) => (typeof raw === 'string' && /^[\x21-\x7e]{16,256}$/.test(raw) ? new Secret(raw) : undefined),
};

export const clusterId: Field<string> = {
  is: 'a cluster id',
  read: (raw) => (typeof raw === 'string' && !clusterIdProblem(raw) ? raw : undefined),
};

export const serviceName: Field<string> = {
  is: 'the name of a service',
  read: (raw) => (typeof raw === 'string' && !serviceNameProblem(raw) ? raw : undefined),
};

export const member: Field<string> = {
  is: '<cluster id>/<service>',
  read: (raw) => {
    const [cluster, service, ...more] = typeof raw === 'string' ? raw.split('/') : [];
    const legal = more.length === 0 && clusterId.read(cluster) !== undefined && serviceName.read(service) !== undefined;
    return legal ? String(raw) : undefined;
  },
};

/** Longer than any address that people write; several stand in one header, which servers cut at 16 KiB. */
const LONGEST_URL = 2048;

export const url: Field<string> = {
  is: 'an http or https URL without a password',
  read: (raw) => {
    const parsed = typeof raw === 'string' && raw.length <= LONGEST_URL ? URL.parse(raw) : null;
    const legal = parsed && /^https?:$/.test(parsed.protocol) && parsed.username === '' && parsed.password === '';
    return legal ? String(raw) : undefined;
  },
};

export const object: Field<Readonly<Record<string, unknown>>> = {
  is: 'an object',
  read: (raw) => (isObject(raw) ? raw : undefined),
};

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
