import { randomUUID } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import { type Catalog, recoverServices } from '../catalog/index.ts';
import { type LocalCluster, openLocalCluster } from '../cluster/local/index.ts';
import { type Config, ConfigError } from '../config.ts';
import { createServer } from '../http/index.ts';
import { createAuthenticator, createOidc, newServiceToken } from '../identity/index.ts';
import { ensureUserKeys } from '../storage/index.ts';
import { ownCredentials } from './first-start.ts';
import { ARCHITECTURE, VERSION } from './version.ts';

export interface Manager {
  readonly app: FastifyInstance;
  /** Where it listens, as an URL. */
  readonly address: string;
  /** The administrator's password, when it was made just now. */
  readonly newPassword?: string;
  /** Finishes what was begun, then stops. */
  stop(): Promise<void>;
}

/**
 * How long requests in progress may take after the order to stop. Kubernetes waits 30 s before it kills; people at a
 * terminal wait less.
 */
const FINISH_MS = 8_000;

/** Puts the parts of a manager together: the one place that knows all of them. */
export async function startManager(config: Config, log: Logger): Promise<Manager> {
  if (config.backend !== 'local') {
    throw new ConfigError(['OSCAR_BACKEND: "kubernetes" is not supported by this manager yet: use local']);
  }
  const cluster = openLocalCluster({ directory: config.dataDir });
  try {
    const { password, storeKeys, made } = await ownCredentials(config, cluster.secrets);
    const catalog = catalogOf(config, cluster);
    const recovered = await recoverServices(Date.now(), catalog);
    if (recovered > 0) log.info({ recovered }, 'finished what an earlier run had begun');

    const store = {
      endpoint: config.minioPublicEndpoint ?? config.minioEndpoint,
      verify: config.minioTlsVerify,
      region: config.minioRegion,
    };
    const app = await createServer({
      catalog,
      authenticator: createAuthenticator({
        admin: { username: config.username, password },
        ...(config.oidcEnable && { oidc: oidcOf(config, log) }),
      }),
      store,
      keysOf: async (principal) =>
        principal.kind === 'admin' ? storeKeys : ensureUserKeys(principal.uid, cluster.secrets),
      info: { version: VERSION, git_commit: '', architecture: ARCHITECTURE, kubernetes_version: '' },
      clusterConfig: clusterConfigOf(config),
      corsOrigins: config.corsOrigins,
      readTimeoutMs: config.readTimeoutSeconds * 1000,
      logger: log,
    });
    const address = await app.listen(config.listen);
    return {
      app,
      address,
      ...(made && { newPassword: password.reveal() }),
      stop: () => stop(app, cluster, log),
    };
  } catch (error) {
    await cluster.close();
    throw error;
  }
}

function catalogOf(config: Config, cluster: LocalCluster): Catalog {
  return {
    ...cluster,
    stores: {
      named: new Set(config.storageProviders.keys()),
      endpoint: config.minioPublicEndpoint ?? config.minioEndpoint,
    },
    servicesNamespace: config.servicesNamespace,
    managerName: config.name,
    allowedGroups: config.oidcEnable ? config.oidcGroups : [],
    now: Date.now,
    newUid: randomUUID,
    newToken: newServiceToken,
  };
}

function oidcOf(config: Config, log: Logger) {
  return createOidc({
    issuers: config.oidcIssuers,
    groups: config.oidcGroups,
    audience: config.oidcAudience,
    groupsClaim: config.oidcGroupsClaim,
    usersAdmin: config.usersAdmin,
    logger: log,
  });
}

function clusterConfigOf(config: Config) {
  return {
    name: config.name,
    namespace: config.namespace,
    services_namespace: config.servicesNamespace,
    controller_service_account: config.controllerServiceAccount,
    gpu_available: false,
    interLink_available: false,
    yunikorn_enable: config.yunikornEnable,
    kueue_enable: config.kueueEnable,
    volume_enable: config.volumeEnable,
    // Never empty: the dashboard tests for exactly this (contract §1.3).
    oidc_groups: config.oidcGroups.length > 0 ? [...config.oidcGroups] : [''],
    minio_quota_enabled: config.minioQuotaEnabled,
  };
}

async function stop(app: FastifyInstance, cluster: LocalCluster, log: Logger): Promise<void> {
  const cut = setTimeout(() => {
    log.warn('cutting requests that did not finish in time');
    app.server.closeAllConnections();
  }, FINISH_MS);
  await app.close();
  clearTimeout(cut);
  await cluster.close();
}
