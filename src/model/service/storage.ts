import { isBlank, isSlash, trimEnds } from '../../lib/trim.ts';
import type { Problem } from './codec.ts';
import { MAX_FOLDERS } from './limits.ts';
import { isolatedBucket } from './names.ts';
import type { StorageProviders } from './schema.ts';
import { CLUSTER_ADMIN, type Definition, type Service } from './service.ts';

/*
 * The storage of a definition: its providers and paths, and the folders and buckets that the service uses.
 */

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
  const isName = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(bucket) && !/\.\.|\.-|-\./.test(bucket);
  // Stores take a name like this for an address.
  if (!isName || /^\d{1,3}(\.\d{1,3}){3}$/.test(bucket)) {
    return `"${bucket}" is not a bucket name: 3 to 63 lower-case letters, digits, hyphens and dots, no dot beside another dot or a hyphen, no IP address`;
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

/** A folder in the cluster's own store that a service reads from or writes to. */
export interface ServiceFolder {
  readonly bucket: string;
  readonly folder: string;
  /** With isolation USER: the user that the folder belongs to. Absent: it belongs to the service. */
  readonly user?: string;
}

/**
 * Where files for a service arrive; with isolation USER each allowed user has such folders of their own
 * (docs/go-manager.md#in-minio).
 */
export function inputFolders(service: Service): ServiceFolder[] {
  if (isWorker(service)) return [];
  const inputs = service.definition.input.filter(isClusterInput).map(({ path }) => splitPath(path));
  return [...inputs, ...isolated(service, inputs)];
}

/**
 * The output folders in the store of the cluster. Results of an allowed user's file are written to the bucket of that file,
 * so that bucket has the output folders too.
 */
export function outputFolders(service: Service): ServiceFolder[] {
  if (isWorker(service)) return [];
  const { input, output } = service.definition;
  const outputs = output
    .filter(({ storage_provider }) => isClusterStore(parseProvider(storage_provider)))
    .map(({ path }) => splitPath(path));
  if (isolatedUsers(service).length === 0) return outputs;
  const sources = new Set(input.filter(isClusterInput).map(({ path }) => splitPath(path).bucket));
  const perSource = outputs.flatMap(({ folder }) => [...sources].map((bucket) => ({ bucket, folder })));
  return [...outputs, ...isolated(service, perSource)];
}

/** With isolation USER the number of folders is a product of three lists: check it before any folder is created. */
export function folderCountProblem({
  input,
  output,
  allowed_users,
  isolation_level,
}: Pick<Definition, 'input' | 'output' | 'allowed_users' | 'isolation_level'>): string | undefined {
  const sources = new Set(input.map(({ path }) => splitPath(path).bucket)).size;
  const users = isolation_level === 'USER' ? allowed_users.length : 0;
  const folders = input.length + output.length + users * (input.length + output.length * sources);
  if (folders <= MAX_FOLDERS) return undefined;
  return `gives each of ${users} allowed users folders of their own, ${folders} in all, and at most ${MAX_FOLDERS} are made for a service: take fewer users, inputs or outputs`;
}

/** A bucket of a store that is not the cluster's own. */
export interface RemoteBucket {
  /** `minio.shared`. */
  readonly store: string;
  readonly bucket: string;
}

/** The buckets of other object stores that a service writes to, each once. */
export function remoteOutputBuckets(service: Service): RemoteBucket[] {
  if (isWorker(service)) return [];
  const found = new Map<string, RemoteBucket>();
  for (const { storage_provider, path } of service.definition.output) {
    const provider = parseProvider(storage_provider);
    if (!hasBuckets(provider) || isClusterStore(provider)) continue;
    const store = `${provider.type}.${provider.id}`;
    const { bucket } = splitPath(path);
    found.set(`${store}/${bucket}`, { store, bucket });
  }
  return [...found.values()];
}

/** The files of a worker are in the store of its coordinator, so it has no folders here (docs/concepts.md#two-rules). */
const isWorker = ({ federation }: Service) => federation?.role === 'worker';

function isolated(service: Service, folders: readonly ServiceFolder[]): ServiceFolder[] {
  return isolatedUsers(service).flatMap((user) =>
    folders.map(({ bucket, folder }) => ({ bucket: isolatedBucket(bucket, user), folder, user })),
  );
}

/** An owner who is not named uses the buckets of the service itself. */
function isolatedUsers({ definition, owner }: Service): readonly string[] {
  return definition.isolation_level === 'USER' && owner !== CLUSTER_ADMIN ? definition.allowed_users : [];
}

/** Whether a bucket was made for one user of a service with isolation USER. */
export const isPersonalBucket = ({ name, owner }: { readonly name: string; readonly owner: string }) =>
  name.endsWith(isolatedBucket('', owner));

/** The stores that a definition may use in addition to its own providers. */
export interface KnownStores {
  /** Providers that the operator defined, such as `minio.shared`. */
  readonly named: ReadonlySet<string>;
  /** Address of the cluster's own store. */
  readonly endpoint: string;
}

const INPUT_TYPES = ['minio', 'webdav', 'rucio'];

/** Problems with the providers of inputs and outputs (docs/fdl.md#inputs-and-outputs). */
export function providerProblems(definition: Definition, known: KnownStores): Problem[] {
  const problems: Problem[] = [];
  for (const [index, io] of definition.input.entries()) {
    const path = `input[${index}].storage_provider`;
    const provider = parseProvider(io.storage_provider);
    const { type, id } = provider;
    if (!INPUT_TYPES.includes(type)) {
      problems.push({ path, message: `${type} cannot be an input: files arrive through ${INPUT_TYPES.join(', ')}` });
    } else if (type === 'minio' && !isClusterStore(provider)) {
      // Only the cluster's own store sends events. A provider with another id but the same endpoint is that store.
      if (definition.storage_providers?.minio?.[id]?.endpoint !== known.endpoint) {
        problems.push({ path, message: `minio.${id} is not the store of this cluster: use minio.default` });
      }
    } else if (!isDefined(provider, definition.storage_providers, known))
      problems.push({ path, message: unknown(provider) });
  }
  for (const [index, io] of definition.output.entries()) {
    const provider = parseProvider(io.storage_provider);
    if (isDefined(provider, definition.storage_providers, known)) continue;
    problems.push({ path: `output[${index}].storage_provider`, message: unknown(provider) });
  }
  return problems;
}

function isDefined(
  provider: { type: string; id: string },
  providers: StorageProviders | undefined,
  known: KnownStores,
): boolean {
  if (isClusterStore(provider) || known.named.has(`${provider.type}.${provider.id}`)) return true;
  const byId = providers?.[provider.type as keyof StorageProviders];
  return byId !== undefined && Object.hasOwn(byId, provider.id);
}

function unknown({ type, id }: { type: string; id: string }): string {
  return `${type}.${id} is not defined: add it to storage_providers, or ask the operator for the providers of this cluster`;
}

/** Drops `minio.default`, which is always the cluster's own store, whatever a client sends (F47). */
export function withoutClusterStore(providers: StorageProviders | undefined): StorageProviders | undefined {
  if (!providers) return undefined;
  const { minio, ...others } = providers;
  const named = Object.fromEntries(Object.entries(minio ?? {}).filter(([id]) => id !== DEFAULT_PROVIDER_ID));
  const kept = { ...others, ...(Object.keys(named).length > 0 && { minio: named }) };
  return Object.keys(kept).length > 0 ? kept : undefined;
}
