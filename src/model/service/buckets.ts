import { isolatedBucket } from './labels.ts';
import { MAX_FOLDERS } from './limits.ts';
import { hasBuckets, isClusterInput, isClusterStore, parseProvider, splitPath } from './paths.ts';
import { CLUSTER_ADMIN, type Definition, type Service } from './service.ts';

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

/** The owner uses the buckets of the service itself. */
function isolatedUsers({ definition, owner }: Service): string[] {
  if (definition.isolation_level !== 'USER' || owner === CLUSTER_ADMIN) return [];
  return definition.allowed_users.filter((user) => user !== owner);
}
