import { expandToWorkers } from '../../../federation/index.ts';
import { type ClusterStore, encode, readDefinition, ServiceSchema } from '../../../model/service/index.ts';
import type { ConfigFile } from '../../client/config-file.ts';
import type { PreparedFile } from './prepare.ts';

/** The definition that the coordinator would send to a member. */
export interface PlannedWorker {
  /** `<cluster id>/<service>`. */
  readonly member: string;
  readonly definition: unknown;
}

/** Stands for a value that only the coordinator knows. */
const SET_BY_COORDINATOR = '(set by the coordinator)';

/** The services that the coordinator would create on other clusters, expanded by the same code. */
export async function planWorkers({ cluster, body }: PreparedFile, { clusters }: ConfigFile): Promise<PlannedWorker[]> {
  const { definition, secrets } = readDefinition(body);
  const members = definition.federation?.members ?? [];
  if (members.length === 0) return [];
  const { minio_provider: store } = (await cluster.call('GET', '/system/config')).json() as {
    minio_provider: ClusterStore;
  };
  const { endpoint, verify, region } = store;
  const places = members.flatMap(({ cluster_id }) => {
    const known = definition.clusters?.[cluster_id] ?? clusters.get(cluster_id);
    return known ? [[cluster_id, { endpoint: known.endpoint, ssl_verify: known.ssl_verify }] as const] : [];
  });
  const workers = expandToWorkers({
    definition,
    secrets: secrets.environment,
    uid: SET_BY_COORDINATOR,
    revision: 1,
    origin: {
      clusterId: definition.cluster_id || cluster.id,
      endpoint: cluster.entry.endpoint,
      store: { endpoint, verify, region },
    },
    clusters: new Map(places),
  });
  return workers.map(({ member, document, secrets: values }) => {
    const shown = Object.fromEntries(Object.keys(values).map((key) => [key, SET_BY_COORDINATOR]));
    const environment = { ...document.environment, secrets: shown };
    return {
      member: `${member.cluster_id}/${member.service_name}`,
      definition: encode(ServiceSchema, { ...document, environment }),
    };
  });
}
