/** A reference to a storage provider: `<type>[.<id>]` (contract §2.4). The text itself is kept as written. */
export interface ProviderReference {
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

/** Does this input come from the store of the cluster? Inputs in other MinIO stores are refused (contract §2.4). */
export function isClusterInput({ storage_provider }: { storage_provider: string }): boolean {
  return parseProvider(storage_provider).type === 'minio';
}

/** Is this the store of the cluster itself? */
export function isClusterStore(provider: ProviderReference): boolean {
  return provider.type === 'minio' && provider.id === DEFAULT_PROVIDER_ID;
}

/**
 * Trims blanks and slashes; in an object store a path without a slash is a folder in a bucket named like the service
 * (contract §2.4). Nothing left is the empty string, which is for the caller to refuse.
 */
export function normalisePath(path: string, provider: ProviderReference, serviceName: string): string {
  const trimmed = path.replace(/^[\s/]+|[\s/]+$/g, '');
  if (trimmed === '' || !hasBuckets(provider) || trimmed.includes('/')) return trimmed;
  return `${serviceName}/${trimmed}`;
}

/** Buckets whose names begin like this are the manager's own (design §5). */
const RESERVED_BUCKETS = ['oscar-staging', 'oscar-events'];

/** Why this cannot be a bucket that a definition uses, or undefined when it can. */
export function bucketProblem(bucket: string): string | undefined {
  if (!/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(bucket) || bucket.includes('..')) {
    return `"${bucket}" is not a bucket name: 3 to 63 lower-case letters, digits, hyphens and dots`;
  }
  const reserved = RESERVED_BUCKETS.find((prefix) => bucket.startsWith(prefix));
  return reserved && `bucket names that begin with ${reserved} are kept for the manager`;
}

/** Why this cannot be a folder, or undefined when it can. Stores disagree on what such keys mean, so none is made. */
export function folderProblem(folder: string): string | undefined {
  if (folder.split('/').some((part) => part === '' || part === '.' || part === '..')) {
    return 'has an empty, "." or ".." part';
  }
  return Buffer.byteLength(folder) > 512 ? 'is longer than 512 bytes' : undefined;
}
