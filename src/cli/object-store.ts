import { join } from 'node:path';
import type { Logger } from 'pino';
import { type Config, hasOwnStore } from '../config.ts';
import { openObjectStore, type Seal } from '../objectstore/index.ts';
import { EmbeddedEvents, EmbeddedStore } from '../storage/embedded/index.ts';
import type { EventSource, ObjectStore, StoreKeys } from '../storage/index.ts';
import type { Cluster } from './cluster.ts';
import type { EventTrouble } from './event-trouble.ts';
import { openMinio } from './minio.ts';
import { openPlainStore } from './plain-store.ts';

/** The object store of this cluster, as far as the manager has to do with it. */
export interface OpenStore {
  /** Absent where somebody else arranges it. */
  readonly objects?: ObjectStore;
  /** What it reports of new objects. */
  readonly events?: EventSource;
  /** What users and definitions are told. */
  readonly endpoint: string;
  /** Its address for this manager, and for who moves the files of jobs. */
  readonly inside: string;
  /** Milliseconds by the clock of the store; that of this machine if absent. */
  readonly time?: () => Promise<number>;
  /** Why it does not report new objects, asked now. */
  readonly trouble?: () => Promise<EventTrouble | undefined>;
  close(): Promise<void>;
}

/** Starts the store of an embedded cluster, or takes up the one that stands elsewhere. */
export async function openStore(config: Config, cluster: Cluster, keys: StoreKeys, log: Logger): Promise<OpenStore> {
  if (cluster.seal && hasOwnStore(config)) return openEmbedded(config, cluster.seal, keys, log);
  const endpoint = config.minioPublicEndpoint ?? config.minioEndpoint;
  if (config.externalStore === 'none') return { endpoint, inside: config.minioEndpoint, close: async () => undefined };
  const open = config.externalStore === 's3' ? openPlainStore : openMinio;
  return open(config, endpoint, cluster, keys, log);
}

async function openEmbedded(config: Config, seal: Seal, keys: StoreKeys, log: Logger): Promise<OpenStore> {
  const server = openObjectStore({
    directory: join(config.dataDir, 'objects'),
    region: config.minioRegion,
    manager: { accessKey: keys.accessKey.reveal(), secret: keys.secretKey },
    seal,
    report: (error, request) => log.error({ err: error, ...request }, 'the object store failed'),
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
