import { goJson } from '../../../src/http/go-json.ts';

/**
 * What changes in a JSON object: `null` takes a key away, an object changes what is below, anything else is the new
 * value (RFC 7396). In a list of services or buckets the keys are their names.
 */
export interface Patch {
  readonly [key: string]: string | number | boolean | null | Patch | Whole;
}

class Whole {
  readonly value: unknown;
  constructor(value: unknown) {
    this.value = value;
  }
}

/** The new value as it is: nothing is merged, `null` is a value, and a list gets an entry that it did not have. */
export const whole = (value: unknown) => new Whole(value);

type Json = Record<string, unknown>;

/** The text of a recorded JSON value, changed, and written as Go writes it. */
export function patchJson(text: string, patch: Patch): string {
  // The one mask that is no string.
  const value: Json | Json[] = JSON.parse(text.replaceAll('<port>', '"<port>"'));
  const changed = Array.isArray(value) ? patchList(value, patch) : patchObject(value, patch);
  return goJson(changed).replace(/\\u003c([a-z][\w-]*)\\u003e/g, '<$1>');
}

function patchList(entries: readonly Json[], patch: Patch): Json[] {
  const kept = entries.filter((entry) => patch[nameOf(entry)] !== null);
  const changed = kept.map((entry) => patchValue(entry, patch[nameOf(entry)]) as Json);
  const names = new Set(entries.map(nameOf));
  const added = Object.entries(patch).flatMap(([name, change]) =>
    change instanceof Whole && !names.has(name) ? [change.value as Json] : [],
  );
  // Buckets are sorted by their names; services only ever leave a list.
  return added.length > 0 ? [...changed, ...added].toSorted((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1)) : changed;
}

const nameOf = (entry: Json) => String(entry['name'] ?? entry['bucket_name']);

function patchObject(object: Json, patch: Patch): Json {
  const kept = Object.entries(object).filter(([key]) => patch[key] !== null);
  const changed = kept.map(([key, value]): [string, unknown] => [key, patchValue(value, patch[key])]);
  const added = Object.entries(patch).filter(([key, change]) => change !== null && !Object.hasOwn(object, key));
  // Only maps get new keys, and those are sorted.
  if (added.length > 0) return Object.fromEntries([...changed, ...added].toSorted(([a], [b]) => (a < b ? -1 : 1)));
  return Object.fromEntries(changed);
}

function patchValue(value: unknown, change: Patch[string] | undefined): unknown {
  if (change === undefined) return value;
  if (change instanceof Whole) return change.value;
  return isObject(value) && isObject(change) ? patchObject(value, change) : change;
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
