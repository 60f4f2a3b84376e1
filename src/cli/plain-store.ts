import type { Logger } from 'pino';
import type { Config } from '../config.ts';
import type { StoreKeys } from '../storage/index.ts';
import type { PlainStore } from '../storage/minio/index.ts';
import type { Cluster } from './cluster.ts';
import { plainTrouble } from './event-trouble.ts';
import { storeOptions, takeUp } from './external-store.ts';
import type { OpenStore } from './object-store.ts';

/** Takes up a store that has S3, and no way to make users. */
export async function openPlainStore(
  config: Config,
  endpoint: string,
  cluster: Cluster,
  keys: StoreKeys,
  log: Logger,
): Promise<OpenStore> {
  // Most managers of one machine never need it.
  const { PlainStore } = await import('../storage/minio/index.ts');
  const objects = new PlainStore({
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

async function look(objects: PlainStore, log: Logger): Promise<void> {
  const noJobKeys = await objects.noJobKeys();
  if (noJobKeys !== undefined) {
    log.warn({ because: noJobKeys }, 'services with inputs or outputs in the object store are refused');
  }
}
