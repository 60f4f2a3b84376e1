import { expand } from '../../../federation/index.ts';
import { type ClusterStore, encode, readDefinition, ServiceSchema } from '../../../model/service/index.ts';
import type { ConfigFile } from '../../client/config-file.ts';
import type { PreparedFile } from './prepare.ts';

/** The definition that the coordinator would send to a member. */
export interface PlannedWorker {
  /** `<cluster id>/<service>`. */
  readonly member: string;
  readonly definition: unknown;
}

/** What only the coordinator can say. */
const GIVEN_THERE = '(given by the coordinator)';

/** The services that the coordinator would make on other clusters, as it makes them itself. */
export async function workersOf({ cluster, body }: PreparedFile, { clusters }: ConfigFile): Promise<PlannedWorker[]> {
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
  const workers = expand({
    definition,
    secrets: secrets.environment,
    uid: GIVEN_THERE,
    revision: 1,
    origin: {
      clusterId: definition.cluster_id || cluster.id,
      endpoint: cluster.entry.endpoint,
      store: { endpoint, verify, region },
    },
    clusters: new Map(places),
  });
  return workers.map(({ member, document, secrets: values }) => {
    // Shown as secrets are shown that have a value.
    const shown = Object.fromEntries(Object.keys(values).map((key) => [key, GIVEN_THERE]));
    const environment = { ...document.environment, secrets: shown };
    return {
      member: `${member.cluster_id}/${member.service_name}`,
      definition: encode(ServiceSchema, { ...document, environment }),
    };
  });
}
