import { goJson } from '../../../src/http/go-json.ts';

/**
 * What changes in a JSON object: `null` takes a key away, an object changes what is below, anything else is the new
 * value (RFC 7396). In a list of services the keys are their names.
 */
export interface Patch {
  readonly [key: string]: string | number | boolean | null | Patch;
}

type Json = Record<string, unknown>;

/** The text of a recorded JSON value, changed, and written as Go writes it. */
export function patchJson(text: string, patch: Patch): string {
  // The one mask that is no string.
  const value: Json | Json[] = JSON.parse(text.replaceAll('<port>', '"<port>"'));
  const changed = Array.isArray(value) ? patchList(value, patch) : patchObject(value, patch);
  return goJson(changed).replace(/\\u003c([a-z][\w-]*)\\u003e/g, '<$1>');
}

function patchList(services: readonly Json[], patch: Patch): Json[] {
  return services.flatMap((service) => {
    const change = patch[String(service['name'])];
    if (change === null) return [];
    return [typeof change === 'object' ? patchObject(service, change) : service];
  });
}

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
  return isObject(value) && isObject(change) ? patchObject(value, change) : change;
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
