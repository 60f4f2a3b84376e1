import type { Logger } from 'pino';
import type { Config } from '../config.ts';
import type { StoreKeys } from '../storage/index.ts';
import type { PlainStore } from '../storage/minio/index.ts';
import type { Cluster } from './cluster.ts';
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
    ...storeOptions(config, endpoint, keys),
    targets: config.storeEventTargets,
  });
  return takeUp({ objects, look: () => look(objects, config, log) }, config, endpoint, cluster, log);
}

async function look(objects: PlainStore, config: Config, log: Logger): Promise<void> {
  const [missing, noJobKeys] = await Promise.all([objects.missingTargets(), objects.noJobKeys()]);
  if (noJobKeys !== undefined) {
    log.warn({ because: noJobKeys }, 'services with inputs or outputs in the object store are refused');
  }
  if (missing.length > 0) {
    log.warn({ missing }, 'the object store does not know these OSCAR_STORE_EVENT_TARGETS: new objects are found late');
  } else if (config.storeEventTargets.length > 0 && !config.eventsToken) {
    log.warn('OSCAR_EVENTS_TOKEN is not set: what the object store reports is refused, and new objects are found late');
  }
}
