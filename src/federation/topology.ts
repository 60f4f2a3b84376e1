import { createHash } from 'node:crypto';
import type { Secret } from '../lib/secret.ts';
import {
  type ClusterStore,
  type DefinedCluster,
  type Definition,
  encode,
  type Federation,
  type Replica,
  type ServiceDocument,
  ServiceSchema,
  type StorageProviders,
} from '../model/service/index.ts';

/** What one definition becomes on several clusters (docs/federation.md#a-definition). */
export interface FederatedDefinition {
  /** Of the coordinator, in canonical form. */
  readonly definition: Definition;
  /** Values of `environment.secrets`. The refresh token is not among them: it has one holder. */
  readonly secrets: Readonly<Record<string, Secret>>;
  /** Names this federation, and grows with every change of it. */
  readonly uid: string;
  readonly revision: number;
  /** The coordinator's cluster, as others reach it and its store. */
  readonly origin: { readonly clusterId: string; readonly endpoint: string; readonly store: ClusterStore };
  /** Where the clusters of the members are. */
  readonly clusters: ReadonlyMap<string, Pick<DefinedCluster, 'endpoint' | 'ssl_verify'>>;
}

/** A service that the coordinator makes on another cluster. */
export interface WorkerDefinition {
  readonly member: Replica;
  /** The definition as it is sent, without the values of secrets. */
  readonly document: ServiceDocument;
  readonly secrets: Readonly<Record<string, Secret>>;
}

/** The service of each member. Members of type `endpoint` are any URL: nothing is deployed there (F18). */
export function expandToWorkers(federated: FederatedDefinition): WorkerDefinition[] {
  const members = federated.definition.federation?.members ?? [];
  return members.filter(isDeployed).map((member) => ({
    member: structuredClone(member),
    document: structuredClone(workerDocument(federated, member)),
    secrets: { ...federated.secrets },
  }));
}

/** The body of the request that makes or changes a worker. Here the secrets come in, for the way over TLS (F20). */
export function serializeWorker({ document, secrets }: WorkerDefinition): string {
  const values = Object.fromEntries(Object.entries(secrets).map(([name, secret]) => [name, secret.reveal()]));
  const { environment } = document;
  return JSON.stringify(encode(ServiceSchema, { ...document, environment: { ...environment, secrets: values } }));
}

/** Says whether a worker is what it should be, without sending it: the revision does not count. */
export function definitionDigest(worker: WorkerDefinition): string {
  const { [REVISION]: _, ...annotations } = worker.document.annotations;
  return createHash('sha256')
    .update(serializeWorker({ ...worker, document: { ...worker.document, annotations } }))
    .digest('hex');
}

const PREFIX = 'oscar.grycap/';
const REVISION = `${PREFIX}federation-revision`;

const isDeployed = ({ type }: Replica) => type === 'oscar';

function workerDocument(federated: FederatedDefinition, member: Replica): ServiceDocument {
  const { definition, origin, secrets, uid, revision } = federated;
  const { federation: _, clusters: __, storage_providers, ...rest } = definition;
  return {
    ...rest,
    name: member.service_name,
    cluster_id: member.cluster_id,
    federation: workerFederation(federated, member),
    clusters: knownClusters(federated),
    storage_providers: withoutKeys(storage_providers, origin.store),
    environment: {
      ...definition.environment,
      secrets: Object.fromEntries(Object.keys(secrets).map((key) => [key, ''])),
    },
    annotations: {
      ...definition.annotations,
      [`${PREFIX}origin-cluster`]: origin.clusterId,
      [`${PREFIX}origin-service`]: definition.name,
      [`${PREFIX}federation-worker`]: 'true',
      [`${PREFIX}federation-uid`]: uid,
      [REVISION]: String(revision),
    },
    // The manager there says what these are.
    token: '',
    owner: '',
    bucket_list: [],
    volume_status: { enabled: false },
  };
}

/** In a mesh every service lists all others, the coordinator first; in a star a worker knows of nobody. */
function workerFederation({ definition, origin }: FederatedDefinition, self: Replica): Federation {
  const { members = [], ...federation } = definition.federation ?? { group_id: definition.name, topology: 'none' };
  if (federation.topology.toLowerCase() !== 'mesh') return { ...federation, members: [] };
  const coordinator: Replica = {
    type: 'oscar',
    cluster_id: origin.clusterId,
    service_name: definition.name,
    url: '',
    ssl_verify: false,
    priority: 0,
    headers: {},
  };
  const own = memberKey(self);
  const others = members.filter((member) => memberKey(member) !== own);
  // Headers may hold secrets of the coordinator's user; they are for requests that the coordinator makes.
  return { ...federation, members: [coordinator, ...others.map((member) => ({ ...member, headers: {} }))] };
}

function knownClusters({ origin, clusters }: FederatedDefinition): Record<string, DefinedCluster> {
  const known = [...clusters, [origin.clusterId, { endpoint: origin.endpoint, ssl_verify: true }] as const];
  return Object.fromEntries(known.map(([id, cluster]) => [id, { ...cluster, auth_user: '', auth_password: '' }]));
}

/** Workers read and write at the store of the origin, with keys that the origin gives for each job. */
function withoutKeys(providers: StorageProviders | undefined, store: ClusterStore): StorageProviders {
  const { minio = {}, s3, webdav } = providers ?? {};
  const none = { access_key: '', secret_key: '' };
  const blank = <T extends object, K extends object>(map: Record<string, T>, keys: K) =>
    Object.fromEntries(Object.entries(map).map(([id, provider]) => [id, { ...provider, ...keys }]));
  return {
    minio: { ...blank(minio, none), default: { ...store, ...none } },
    ...(s3 && { s3: blank(s3, none) }),
    ...(webdav && { webdav: blank(webdav, { password: '' }) }),
  };
}

/** Two entries with the same key are the same member, whatever else they say about it. */
export const memberKey = ({ type, url, cluster_id, service_name }: Replica): string =>
  JSON.stringify(type === 'endpoint' ? [url] : [cluster_id, service_name]);

/** The indexes of entries whose member an earlier entry names already. */
export function repeatedMembers(members: readonly Replica[]): number[] {
  const seen = new Set<string>();
  return members.flatMap((member, index) => {
    const { size } = seen;
    return seen.add(memberKey(member)).size === size ? [index] : [];
  });
}

/** Why these cannot be the members of this service, one sentence each. */
export function memberProblems({ name, federation }: Definition, clusterId: string, most: number): string[] {
  const members = federation?.members ?? [];
  const problems: string[] = [];
  if (members.length > most) {
    problems.push(`federation.members: has ${members.length}, and this cluster allows ${most} in one federation`);
  }
  for (const [index, member] of members.entries()) {
    if (isDeployed(member) && member.cluster_id === clusterId && member.service_name === name) {
      problems.push(`federation.members[${index}]: is the service itself: name services on other clusters`);
    }
  }
  return [...problems, ...repeatedMembers(members).map((index) => `federation.members[${index}]: is there twice`)];
}
