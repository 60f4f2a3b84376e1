import type { Coordination } from '../src/federation/index.ts';
import { createServer, Meters, singleProcess } from '../src/http/index.ts';
import { CLUSTER_CONFIG } from '../src/http/routes/cluster-config.fixture.ts';
import { createAuthenticator } from '../src/identity/index.ts';
import type { Jobs } from '../src/jobs/index.ts';
import { Secret } from '../src/lib/secret.ts';
import type { Services } from '../src/services/index.ts';

/** The OpenAPI document of the manager, as `/openapi.json` serves it: its routes are registered, none is called. */
export async function renderOpenApi(): Promise<string> {
  const app = await createServer({
    catalog: { objects: {} } as Services,
    federations: { coordination: {} as Coordination, workers: { catalog: {} as Services, instance: '' } },
    authenticator: createAuthenticator({ admin: { username: '', password: new Secret('') } }),
    store: { endpoint: '', verify: true, region: '' },
    keysOf: () => Promise.reject(new Error('not used for the document')),
    rotateKeys: () => Promise.reject(new Error('not used for the document')),
    jobs: { maxEventBytes: 1 } as Jobs,
    viewClusters: () => Promise.reject(new Error('not used for the document')),
    figures: {
      meters: new Meters(),
      deployment: singleProcess('', 0),
      oidc: { enabled: false, issuers: [], groups: [] },
    },
    tokenSource: { revokeGrant: () => Promise.reject(new Error('not used for the document')) },
    pageSize: 1,
    info: {
      version: '',
      git_commit: '',
      architecture: '',
      kubernetes_version: '',
      manager_version: 'latest',
      manager_commit: '',
    },
    clusterConfig: CLUSTER_CONFIG,
    corsOrigins: [],
    readTimeoutMs: 1000,
  });
  await app.ready();
  const document = app.swagger();
  await app.close();
  return `${JSON.stringify(document, null, 2)}\n`;
}
