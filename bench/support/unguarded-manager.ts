import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { openLocalCluster } from '../../src/adapters/sqlite/index.ts';
import { ensureUserKeys, rotateUserKeys } from '../../src/buckets/index.ts';
import { readConfig } from '../../src/config/index.ts';
import type { Coordination } from '../../src/federation/index.ts';
import { createServer } from '../../src/http/index.ts';
import { CLUSTER_CONFIG } from '../../src/http/routes/cluster-config.fixture.ts';
import { newServiceToken, type User, UserNames } from '../../src/identity/index.ts';
import { createLog } from '../../src/manager/index.ts';
import type { Services } from '../../src/services/index.ts';
import { ALICE } from '../../test/support/issuer-users.ts';

/**
 * The routes of a manager with everything behind them, where everybody is taken for Alice: what a request costs without
 * authentication. Only to compare with: `node bench/support/unguarded-manager.ts`.
 */

const config = readConfig(process.env, (name) => readFileSync(name, 'utf8'));
const cluster = openLocalCluster({ directory: config.dataDir });
const alice: User = Object.freeze({ kind: 'user', uid: ALICE.sub, name: 'Alice', groups: [], operator: false });
const store = { endpoint: config.minioEndpoint, verify: config.minioTlsVerify, region: config.minioRegion };

const catalog: Services = {
  ...cluster,
  stores: { named: new Set(), endpoint: store.endpoint },
  servicesNamespace: config.servicesNamespace,
  managerName: config.name,
  allowedGroups: [],
  users: new UserNames({ issuers: [] }),
  now: Date.now,
  newUid: () => crypto.randomUUID(),
  newToken: newServiceToken,
};

const app = await createServer({
  catalog,
  federations: { coordination: {} as Coordination, workers: { catalog, instance: '' } },
  authenticator: { system: () => Promise.resolve(alice), service: () => Promise.resolve(alice) },
  store,
  keysOf: () => ensureUserKeys(alice.uid, cluster),
  rotateKeys: () => rotateUserKeys(alice.uid, cluster),
  pageSize: config.jobListingLimit,
  info: {
    version: '',
    git_commit: '',
    architecture: '',
    kubernetes_version: '',
    manager_version: '',
    manager_commit: '',
  },
  clusterConfig: {
    ...CLUSTER_CONFIG,
    name: config.name,
    namespace: config.namespace,
    services_namespace: config.servicesNamespace,
    controller_service_account: config.controllerServiceAccount,
  },
  corsOrigins: [],
  readTimeoutMs: config.readTimeoutSeconds * 1000,
  logger: createLog(config),
});
await app.listen(config.listen);

await once(process, 'SIGTERM');
await app.close();
await cluster.close();
