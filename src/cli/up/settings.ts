import { join } from 'node:path';
import { GROUP, PEOPLE } from './issuer/people.ts';
import { AUDIENCE, CLIENT_ID } from './issuer/provider.ts';
import type { Plan, PlannedCluster } from './plan.ts';

export const managerEndpoint = ({ port }: PlannedCluster) => `http://127.0.0.1:${port}`;
export const storeEndpoint = ({ storePort }: PlannedCluster) => `http://127.0.0.1:${storePort}`;

/** The store that all clusters know as `minio.shared`. */
export const sharedStore = ({ sharedPort, storeKeys }: Plan) => ({
  endpoint: `http://127.0.0.1:${sharedPort}`,
  access_key: storeKeys.accessKey,
  secret_key: storeKeys.secretKey,
  region: 'us-east-1',
});

/** The environment variables that are passed to the managers. */
const INHERITED = /^(PATH|HOME|TMPDIR|TZ|LANG|LC_.*|DOCKER_.*|NODE_EXTRA_CA_CERTS|OSCAR_LOG_LEVEL|OSCAR_LOCAL_.*)$/;

/** The environment of one manager of the federation. */
export function settingsFor(
  cluster: PlannedCluster,
  plan: Plan,
  { directory, issuer, env }: { directory: string; issuer: string; env: NodeJS.ProcessEnv },
): NodeJS.ProcessEnv {
  const known = plan.clusters.map((each) => [each.id, { endpoint: managerEndpoint(each), store: storeEndpoint(each) }]);
  const inherited = Object.entries(env).filter(([name]) => INHERITED.test(name));
  return {
    OSCAR_LOCAL_CPU: cluster.cpu,
    OSCAR_LOCAL_MEMORY: cluster.memory,
    ...Object.fromEntries(inherited),
    OSCAR_CLUSTER_ID: cluster.id,
    OSCAR_DATA_DIR: join(directory, cluster.id),
    OSCAR_LISTEN: `127.0.0.1:${cluster.port}`,
    OSCAR_ENDPOINT: managerEndpoint(cluster),
    OSCAR_STORE_PORT: String(cluster.storePort),
    OSCAR_PASSWORD: cluster.password,
    OSCAR_CLUSTERS: JSON.stringify(Object.fromEntries(known)),
    OSCAR_STORAGE_PROVIDERS: JSON.stringify({ 'minio.shared': sharedStore(plan) }),
    // Shorter than the default, so that users soon see changes on other clusters.
    OSCAR_RECONCILE_INTERVAL: '10',
    OSCAR_LOG_FORMAT: 'json',
    // All users of the demo are the person at this machine. The banner says so where scripts are not isolated.
    OSCAR_ALLOW_UNISOLATED_SCRIPTS: 'true',
    OIDC_ENABLE: 'true',
    OIDC_ISSUERS: issuer,
    OIDC_GROUPS: GROUP,
    OIDC_AUDIENCE: AUDIENCE,
    OIDC_CLIENT_ID: CLIENT_ID,
    OSCAR_PAGE_LOGIN_HINTS: PEOPLE.map(({ login }) => login).join(','),
  };
}
