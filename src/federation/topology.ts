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

/** A definition to be deployed on several clusters (docs/federation.md#a-definition). */
export interface FederatedDefinition {
  /** The coordinator's definition, in canonical form. */
  readonly definition: Definition;
  /** Values of `environment.secrets`, without the refresh token: only the coordinator holds it. */
  readonly secrets: Readonly<Record<string, Secret>>;
  /** Identifies this federation. */
  readonly uid: string;
  readonly revision: number;
  /** The coordinator's cluster, with the addresses at which members reach it and its store. */
  readonly origin: { readonly clusterId: string; readonly endpoint: string; readonly store: ClusterStore };
  /** The addresses of the members' clusters. */
  readonly clusters: ReadonlyMap<string, Pick<DefinedCluster, 'endpoint' | 'ssl_verify'>>;
}

/** The service that the coordinator creates on another cluster. */
export interface WorkerDefinition {
  readonly member: Replica;
  /** The definition as it is sent, without the values of secrets. */
  readonly document: ServiceDocument;
  readonly secrets: Readonly<Record<string, Secret>>;
}

/** The worker of each member. A member of type `endpoint` is just a URL; nothing is deployed there (F18). */
export function expandToWorkers(federated: FederatedDefinition): WorkerDefinition[] {
  const members = federated.definition.federation?.members ?? [];
  return members.filter(isDeployed).map((member) => ({
    member: structuredClone(member),
    document: structuredClone(workerDocument(federated, member)),
    secrets: { ...federated.secrets },
  }));
}

/**
 * The body of the request that creates or updates a worker. It contains the values of secrets, which TLS protects on the way
 * (F20).
 */
export function serializeWorker({ document, secrets }: WorkerDefinition): string {
  const values = Object.fromEntries(Object.entries(secrets).map(([name, secret]) => [name, secret.reveal()]));
  const { environment } = document;
  return JSON.stringify(encode(ServiceSchema, { ...document, environment: { ...environment, secrets: values } }));
}

/** A digest to compare a worker with its definition without sending the definition. It does not cover the revision. */
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
    // The manager of the member sets these.
    token: '',
    owner: '',
    bucket_list: [],
    volume_status: { enabled: false },
  };
}

/** In a mesh every service lists all others, the coordinator first; in a star a worker lists none. */
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
  // Headers may contain secrets of the coordinator's user. Only the coordinator's own requests use them.
  return { ...federation, members: [coordinator, ...others.map((member) => ({ ...member, headers: {} }))] };
}

function knownClusters({ origin, clusters }: FederatedDefinition): Record<string, DefinedCluster> {
  const known = [...clusters, [origin.clusterId, { endpoint: origin.endpoint, ssl_verify: true }] as const];
  return Object.fromEntries(known.map(([id, cluster]) => [id, { ...cluster, auth_user: '', auth_password: '' }]));
}

/** Workers read and write in the origin's store, with keys that the origin issues for each job. */
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

/** Two entries with the same key are the same member, even if other fields differ. */
export const memberKey = ({ type, url, cluster_id, service_name }: Replica): string =>
  JSON.stringify(type === 'endpoint' ? [url] : [cluster_id, service_name]);

/** The indexes of entries that repeat an earlier member. */
export function repeatedMembers(members: readonly Replica[]): number[] {
  const seen = new Set<string>();
  return members.flatMap((member, index) => {
    const { size } = seen;
    return seen.add(memberKey(member)).size === size ? [index] : [];
  });
}

/** The reasons why these cannot be the members of this service, one sentence each. */
export function memberProblems({ name, federation }: Definition, clusterId: string, most: number): string[] {
  const members = federation?.members ?? [];
  const problems: string[] = [];
  if (members.length > most) {
    problems.push(
      `federation.members: has ${members.length} members, but this cluster allows at most ${most} in one federation`,
    );
  }
  for (const [index, member] of members.entries()) {
    if (isDeployed(member) && member.cluster_id === clusterId && member.service_name === name) {
      problems.push(`federation.members[${index}]: is the service itself: list services on other clusters`);
    }
  }
  return [...problems, ...repeatedMembers(members).map((index) => `federation.members[${index}]: is listed twice`)];
}
