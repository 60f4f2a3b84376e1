import { isolatedBucket } from './labels.ts';
import { isClusterInput, isClusterStore, parseProvider, splitPath } from './paths.ts';
import { CLUSTER_ADMIN, type Service } from './service.ts';

/** A folder in the cluster's own store that a service reads from or writes to. */
export interface ServiceFolder {
  readonly bucket: string;
  readonly folder: string;
  /** With isolation USER: whose it is. Absent: the service's. */
  readonly user?: string;
}

/** Where files for a service arrive; with isolation USER each allowed user has such folders of their own (§4.3). */
export function inputFolders(service: Service): ServiceFolder[] {
  if (worksElsewhere(service)) return [];
  const inputs = service.definition.input.filter(isClusterInput).map(({ path }) => splitPath(path));
  return [...inputs, ...isolated(service, inputs)];
}

/**
 * Where its results go, as far as that is the store of the cluster. Results of an allowed user's file go to the bucket
 * that the file came from, so that one has the folders for them too.
 */
export function outputFolders(service: Service): ServiceFolder[] {
  if (worksElsewhere(service)) return [];
  const { input, output } = service.definition;
  const outputs = output
    .filter(({ storage_provider }) => isClusterStore(parseProvider(storage_provider)))
    .map(({ path }) => splitPath(path));
  const sources = input.filter(isClusterInput).map(({ path }) => splitPath(path).bucket);
  const beside = outputs.flatMap(({ folder }) => [...new Set(sources)].map((bucket) => ({ bucket, folder })));
  return [...outputs, ...isolated(service, beside)];
}

/** The files of a worker are at the store of its coordinator: here it has nothing (design §7). */
const worksElsewhere = ({ federation }: Service) => federation?.role === 'worker';

function isolated(service: Service, folders: readonly ServiceFolder[]): ServiceFolder[] {
  return isolatedUsers(service).flatMap((user) =>
    folders.map(({ bucket, folder }) => ({ bucket: isolatedBucket(bucket, user), folder, user })),
  );
}

/** The owner works in the buckets of the service itself. */
function isolatedUsers({ definition, owner }: Service): string[] {
  if (definition.isolation_level !== 'USER' || owner === CLUSTER_ADMIN) return [];
  return definition.allowed_users.filter((user) => user !== owner);
}
