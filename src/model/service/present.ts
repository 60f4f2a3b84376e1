import { isDeepStrictEqual } from 'node:util';
import { encode } from './codec.ts';
import { isolatedBucket, serviceAnnotations, serviceLabels } from './names.ts';
import { type Deployment, type MinioProvider, type ServiceDocument, ServiceSchema } from './schema.ts';
import { HIDDEN } from './secrets.ts';
import { CLUSTER_ADMIN, type Definition, type Service } from './service.ts';
import { inputFolders, isClusterInput, splitPath } from './storage.ts';

/** The cluster's own store, which every definition shows as `minio.default`. */
export type ClusterStore = Pick<MinioProvider, 'endpoint' | 'verify' | 'region'>;

export interface Viewing {
  readonly store: ClusterStore;
  /** Set for users who may invoke the service (S9). */
  readonly showToken: boolean;
  /** Set for requests with `include=deployment`. */
  readonly deployment?: Deployment;
}

/** A service in an answer: keys in the order of the schema, no secret except the token if `showToken` is set. */
export function present(service: Service, viewing: Viewing): unknown {
  const { definition } = service;
  const document: ServiceDocument = {
    ...definition,
    token: viewing.showToken ? service.token.reveal() : '',
    labels: serviceLabels(service),
    annotations: serviceAnnotations(service),
    storage_providers: {
      ...definition.storage_providers,
      minio: {
        ...definition.storage_providers?.minio,
        default: { ...visibleStore(service, viewing.store), access_key: HIDDEN, secret_key: HIDDEN },
      },
    },
    owner: service.owner,
    namespace: service.namespace,
    allowed_users: shownAllowedUsers(service),
    bucket_list: listIsolatedBuckets(service),
    volume_status: { enabled: false },
    ...(viewing.deployment && { deployment: viewing.deployment }),
  };
  return encode(ServiceSchema, document);
}

/** The files of a worker are in the store of its coordinator. */
function visibleStore({ federation }: Service, own: ClusterStore): ClusterStore {
  return federation?.role === 'worker' && federation.origin.store !== ''
    ? { ...own, endpoint: federation.origin.store }
    : own;
}

/** With isolation USER the owner is one of the users (docs/go-manager.md#in-minio). */
function shownAllowedUsers({ owner, definition }: Service): string[] {
  const { allowed_users } = definition;
  const isMissing = addsOwner(definition, owner) && allowed_users.length > 0 && !allowed_users.includes(owner);
  return isMissing ? [...allowed_users, owner] : allowed_users;
}

/**
 * The definition to store. An owner whom the definition names has personal buckets, as every allowed user. A client that sends
 * back what it read also sends the owner whom `present` has added: such an owner is not stored. `before` is the definition
 * that it read.
 */
export function ownedBy(definition: Definition, owner: string, before?: Definition): Definition {
  if (!addsOwner(definition, owner)) return definition;
  const [last, ...others] = definition.allowed_users.toReversed();
  const stored = before?.allowed_users ?? [];
  const isEcho = stored.length > 0 && last === owner && isDeepStrictEqual(others.toReversed(), stored);
  return isEcho || !definition.input.some(isClusterInput) ? withoutOwner(definition, owner) : definition;
}

/** The definition that a document of a store contains: `bucket_list` tells whether the owner was named or added. */
export function storedDefinition(definition: Definition, owner: string, bucketList: readonly string[]): Definition {
  if (!addsOwner(definition, owner)) return definition;
  const personal = definition.input.map(({ path }) => isolatedBucket(splitPath(path).bucket, owner));
  return personal.some((bucket) => bucketList.includes(bucket)) ? definition : withoutOwner(definition, owner);
}

const withoutOwner = (definition: Definition, owner: string): Definition => ({
  ...definition,
  allowed_users: definition.allowed_users.filter((uid) => uid !== owner),
});

function addsOwner({ isolation_level }: Definition, owner: string): boolean {
  return isolation_level === 'USER' && owner !== CLUSTER_ADMIN;
}

/** With isolation USER each allowed user has a bucket beside each input bucket (docs/go-manager.md#in-minio). */
function listIsolatedBuckets(service: Service): string[] {
  const theirs = inputFolders(service).filter(({ user }) => user !== undefined);
  return [...new Set(theirs.map(({ bucket }) => bucket))];
}
