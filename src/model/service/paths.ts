import { isBlank, isSlash, trimEnds } from '../../lib/trim.ts';
import type { Problem } from './codec.ts';
import type { Definition } from './service.ts';

/**
 * A reference to a storage provider: `<type>[.<id>]` (docs/fdl.md#inputs-and-outputs). The text itself is kept as
 * written.
 */
interface ProviderReference {
  /** In lower case. */
  readonly type: string;
  readonly id: string;
}

export const DEFAULT_PROVIDER_ID = 'default';

export function parseProvider(reference: string): ProviderReference {
  const dot = reference.indexOf('.');
  const type = (dot < 0 ? reference : reference.slice(0, dot)).toLowerCase();
  const id = dot < 0 ? '' : reference.slice(dot + 1);
  return { type, id: id || DEFAULT_PROVIDER_ID };
}

/** `<bucket>/<folder>`; the folder may be empty. */
export function splitPath(path: string): { bucket: string; folder: string } {
  const slash = path.indexOf('/');
  return slash < 0 ? { bucket: path, folder: '' } : { bucket: path.slice(0, slash), folder: path.slice(slash + 1) };
}

const OBJECT_STORES = new Set(['minio', 's3']);

/** Object stores have buckets; for the other types a path is just a path. */
export function hasBuckets(provider: ProviderReference): boolean {
  return OBJECT_STORES.has(provider.type);
}

/**
 * Does this input come from the store of the cluster? Inputs in other MinIO stores are rejected
 * (docs/fdl.md#inputs-and-outputs).
 */
export function isClusterInput({ storage_provider }: { storage_provider: string }): boolean {
  return parseProvider(storage_provider).type === 'minio';
}

/** Is this the store of the cluster itself? */
export function isClusterStore(provider: ProviderReference): boolean {
  return provider.type === 'minio' && provider.id === DEFAULT_PROVIDER_ID;
}

/** Without blanks and slashes at its ends. */
export const trimPath = (path: string) => trimEnds(path, (each) => isSlash(each) || isBlank(each));

/**
 * Trims blanks and slashes; in an object store a path without a slash is a folder in a bucket named like the service
 * (docs/fdl.md#inputs-and-outputs). Returns the empty string if nothing is left, which the caller rejects.
 */
export function normalisePath(path: string, provider: ProviderReference, serviceName: string): string {
  const trimmed = trimPath(path);
  if (trimmed === '' || !hasBuckets(provider) || trimmed.includes('/')) return trimmed;
  return `${serviceName}/${trimmed}`;
}

/** Buckets whose names begin like this are the manager's own (docs/security.md#buckets). */
const RESERVED_BUCKETS = ['oscar-staging', 'oscar-events'];

/** Why this cannot be a bucket that a definition uses, or undefined when it can. */
export function bucketProblem(bucket: string): string | undefined {
  if (!/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(bucket) || bucket.includes('..')) {
    return `"${bucket}" is not a bucket name: 3 to 63 lower-case letters, digits, hyphens and dots`;
  }
  const reserved = RESERVED_BUCKETS.find((prefix) => bucket.startsWith(prefix));
  return reserved && `bucket names that begin with ${reserved} are kept for the manager`;
}

/** Why this cannot be a folder, or undefined when it can. Stores disagree on the meaning of such keys, so none is created. */
export function folderProblem(folder: string): string | undefined {
  if (folder.split('/').some((part) => part === '' || part === '.' || part === '..')) {
    return 'has an empty, "." or ".." part';
  }
  return Buffer.byteLength(folder) > 512 ? 'is longer than 512 bytes' : undefined;
}

/** The annotation by which an owner allows that the results of a service start it again. */
const OPT_IN = 'oscar-manager/allow-loop';

/** A result below an input of the same service would start it again without end. */
export function loopProblems({ input, output, annotations }: Definition): Problem[] {
  if (annotations[OPT_IN] === 'true') return [];
  const watched = new Set(input.filter(isClusterInput).map(({ path }) => path));
  return output.flatMap(({ storage_provider, path }, index) => {
    const under =
      isClusterStore(parseProvider(storage_provider)) && foldersAbove(path).find((each) => watched.has(each));
    if (!under) return [];
    const message = `lies under the input ${under}, so that each result would start the service again: choose another folder, or set the annotation ${OPT_IN} to "true" if you mean it`;
    return [{ path: `output[${index}].path`, message }];
  });
}

/** `a/b/c` → `a`, `a/b`, `a/b/c`. A path is no longer than a bucket's name and 512 bytes. */
function foldersAbove(path: string): string[] {
  const parts = path.split('/');
  return parts.map((_, index) => parts.slice(0, index + 1).join('/'));
}
