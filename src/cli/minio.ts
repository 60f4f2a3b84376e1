import type { Logger } from 'pino';
import type { SecretStore } from '../cluster/index.ts';
import type { Config } from '../config.ts';
import { adoptBuckets, type StoreKeys } from '../storage/index.ts';
import type { Cluster } from './cluster.ts';
import { minioTrouble } from './event-trouble.ts';
import { storeOptions, takeUp } from './external-store.ts';
import type { OpenStore } from './object-store.ts';

/** Takes up a MinIO that stands elsewhere, with its users, rights and events. */
export async function openMinio(
  config: Config,
  endpoint: string,
  cluster: Cluster,
  keys: StoreKeys,
  log: Logger,
): Promise<OpenStore> {
  // Most managers of one machine never need it.
  const { MinioStore } = await import('../storage/minio/index.ts');
  const objects = new MinioStore({
    ...storeOptions(config, endpoint, keys, log),
    keysOf: (uid) => keysOf(uid, cluster.secrets),
  });
  const store = {
    objects,
    trouble: async () => minioTrouble(await objects.missingTargets(), config),
    upFor: () => objects.upFor(),
    async mend(signal: AbortSignal) {
      const adopted = await adoptBuckets(cluster.services, objects, signal);
      if (adopted > 0) log.info({ buckets: adopted }, 'took up buckets that a Go manager made for services');
    },
  };
  return takeUp(store, config, endpoint, cluster, log);
}

async function keysOf(uid: string, secrets: SecretStore): Promise<StoreKeys | undefined> {
  const { accessKey, secretKey } = (await secrets.get('user', uid))?.values ?? {};
  return accessKey && secretKey && { accessKey, secretKey };
}
