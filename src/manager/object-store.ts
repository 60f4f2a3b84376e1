import { join } from 'node:path';
import type { Logger } from 'pino';
import { EmbeddedEvents, EmbeddedStore } from '../adapters/object-stores/embedded/index.ts';
import type { PlainS3Store } from '../adapters/object-stores/s3/index.ts';
import { type Config, hasOwnStore } from '../config/index.ts';
import type { DiskSpace } from '../lib/disk-space.ts';
import type { ConnectionLimits } from '../lib/http/index.ts';
import type { EventSource, ObjectStore, SecretStore, StoreKeys } from '../ports/index.ts';
import { type IdentitySeal, openObjectStore } from '../s3-server/index.ts';
import { adoptBuckets } from '../services/index.ts';
import type { OpenedCluster } from './cluster.ts';
import { type EventTrouble, minioTrouble, plainTrouble, storeOptions, takeUp } from './external-store.ts';

/** The object store of this cluster. */
export interface OpenedStore {
  /** Absent with `OSCAR_EXTERNAL_STORE=none`. */
  readonly objects?: ObjectStore;
  /** Events of new objects. */
  readonly events?: EventSource;
  /** The URL for users and definitions. */
  readonly endpoint: string;
  /** Its URL for this manager and for the processes that move the files of jobs. */
  readonly inside: string;
  /** Milliseconds by the clock of the store; absent if it is the clock of this machine. */
  readonly time?: () => Promise<number>;
  /** Rejects with `unavailable` if it does not answer; absent if it is part of this process. */
  readonly reach?: () => Promise<unknown>;
  /** Checks why it does not report new objects. */
  readonly trouble?: () => Promise<EventTrouble | undefined>;
  close(): Promise<void>;
}

/** Starts the embedded store, or connects to an external one. */
export async function openStore(
  config: Config,
  cluster: OpenedCluster,
  keys: StoreKeys,
  log: Logger,
  disk?: DiskSpace,
): Promise<OpenedStore> {
  if (cluster.seal && hasOwnStore(config)) return openEmbedded(config, cluster.seal, keys, log, disk);
  const endpoint = config.minioPublicEndpoint ?? config.minioEndpoint;
  if (config.externalStore === 'none') return { endpoint, inside: config.minioEndpoint, close: async () => undefined };
  const open = config.externalStore === 's3' ? openPlainStore : openMinio;
  return open(config, endpoint, cluster, keys, log);
}

/** Each port has these limits of its own. */
export const toConnectionLimits = (config: Config): ConnectionLimits => ({
  total: config.maxConnections,
  perAddress: config.maxConnectionsPerAddress,
  peers: Math.ceil(config.maxConnections / 8),
  proxies: config.trustedProxies,
});

async function openEmbedded(
  config: Config,
  seal: IdentitySeal,
  keys: StoreKeys,
  log: Logger,
  disk: DiskSpace | undefined,
): Promise<OpenedStore> {
  const server = openObjectStore({
    directory: join(config.dataDir, 'objects'),
    region: config.minioRegion,
    manager: { accessKey: keys.accessKey.reveal(), secret: keys.secretKey },
    seal,
    shortage: () => disk?.shortage,
    connections: toConnectionLimits(config),
    report: (error, request) => log.error({ err: error, ...request }, 'object store request failed'),
  });
  try {
    const { address, port, family } = await server.listen({ host: config.listen.host, port: config.storePort });
    const inside = `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`;
    const endpoint = config.minioPublicEndpoint ?? inside;
    const objects = new EmbeddedStore({ server, endpoint, stagingBucket: config.stagingBucket });
    await objects.ensureStaging();
    log.info({ endpoint }, 'object store is up');
    return {
      objects,
      events: new EmbeddedEvents(server),
      endpoint,
      inside,
      close: () => server.close(),
    };
  } catch (error) {
    await server.close();
    throw error;
  }
}

/** Connects to an external MinIO and configures its users, policies and events. */
async function openMinio(
  config: Config,
  endpoint: string,
  cluster: OpenedCluster,
  keys: StoreKeys,
  log: Logger,
): Promise<OpenedStore> {
  // Loaded on demand, because the embedded store does not need it.
  const { MinioStore } = await import('../adapters/object-stores/minio/index.ts');
  const objects = new MinioStore({
    ...storeOptions(config, endpoint, keys, log),
    findUserKeys: (uid) => loadKeys(uid, cluster.secrets),
  });
  const store = {
    objects,
    trouble: async () => minioTrouble(await objects.missingTargets(), config),
    upFor: () => objects.upFor(),
    async mend(signal: AbortSignal) {
      const adopted = await adoptBuckets(cluster.services, objects, signal);
      if (adopted > 0) log.info({ buckets: adopted }, 'adopted buckets that a Go manager created for services');
    },
  };
  return takeUp(store, config, endpoint, cluster, log);
}

async function loadKeys(uid: string, secrets: SecretStore): Promise<StoreKeys | undefined> {
  const { accessKey, secretKey } = (await secrets.get('user', uid))?.values ?? {};
  return accessKey && secretKey && { accessKey, secretKey };
}

/** Connects to an external store with the S3 API only, which cannot create users. */
async function openPlainStore(
  config: Config,
  endpoint: string,
  cluster: OpenedCluster,
  keys: StoreKeys,
  log: Logger,
): Promise<OpenedStore> {
  // Loaded on demand, because the embedded store does not need it.
  const { PlainS3Store } = await import('../adapters/object-stores/s3/index.ts');
  const objects = new PlainS3Store({
    ...storeOptions(config, endpoint, keys, log),
    targets: config.storeEventTargets,
  });
  const store = {
    objects,
    trouble: async () => plainTrouble(await objects.missingTargets(), config),
    look: () => look(objects, log),
  };
  return takeUp(store, config, endpoint, cluster, log);
}

async function look(objects: PlainS3Store, log: Logger): Promise<void> {
  const noJobKeys = await objects.noJobKeys();
  if (noJobKeys !== undefined) {
    log.warn({ because: noJobKeys }, 'services with inputs or outputs in the object store are rejected');
  }
}
