import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import { type SecretStore, StoreError } from '../cluster/index.ts';
import type { Config } from '../config.ts';
import { type EventSource, renewSubscriptions, type StoreKeys } from '../storage/index.ts';
import type { MinioStore } from '../storage/minio/index.ts';
import type { Cluster } from './cluster.ts';
import type { OpenStore } from './object-store.ts';

/** How often a store that does not answer is asked again. Shorter: more lines in the log of an outage. */
const ASK_EVERY_MS = 10_000;

/** It sends its events to our hook, and keeps those that it cannot deliver: there is nothing to take from it. */
const SENT_TO_THE_HOOK: EventSource = {
  take: async () => [],
  acknowledge: async () => undefined,
  onEvents: () => () => undefined,
  backlog: async () => ({ events: 0 }),
};

/**
 * Takes up a MinIO that stands elsewhere. One that is away stops nobody from starting: what needs it says so, and once it
 * answers, it is made ready. A bucket of the manager's that somebody else has does stop the start.
 */
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
    endpoint: config.minioEndpoint,
    publicEndpoint: endpoint,
    region: config.minioRegion,
    verify: config.minioTlsVerify,
    keys,
    managerName: config.name,
    keysOf: (uid) => keysOf(uid, cluster.secrets),
  });
  const ending = new AbortController();
  try {
    await makeReady(objects, config, log);
    void renew(objects, cluster, ending.signal, log);
  } catch (error) {
    if (!isAway(error)) {
      objects.close();
      throw error;
    }
    log.warn({ err: error, endpoint: config.minioEndpoint }, 'the object store does not answer: it is asked again');
    void makeReadyLater(objects, config, cluster, ending.signal, log);
  }
  return {
    objects,
    events: SENT_TO_THE_HOOK,
    endpoint,
    time: () => objects.time(),
    async close() {
      ending.abort();
      objects.close();
    },
  };
}

async function makeReady(objects: MinioStore, config: Config, log: Logger): Promise<void> {
  await objects.ensureStaging();
  if (!(await objects.takesSeveralManagers())) {
    log.warn('this release of MinIO does not look at the conditions of a write: upgrade it, or run one manager only');
  }
  const missing = await objects.missingTargets();
  log.info({ endpoint: config.minioEndpoint }, 'object store is up');
  if (missing.length > 0) {
    log.warn(
      {
        missing,
        set: missing.flatMap((target) => [
          `MINIO_NOTIFY_WEBHOOK_ENABLE_${target}=on`,
          `MINIO_NOTIFY_WEBHOOK_ENDPOINT_${target}=<this manager>/system/events/storage`,
        ]),
      },
      'the object store does not report new objects: set this in its environment, as docs/minio.md says. ' +
        'Until then they are looked for every few minutes',
    );
  } else if (!config.eventsToken) {
    log.warn('OSCAR_EVENTS_TOKEN is not set: what the object store reports is refused, and new objects are found late');
  }
}

async function makeReadyLater(
  objects: MinioStore,
  config: Config,
  cluster: Cluster,
  signal: AbortSignal,
  log: Logger,
): Promise<void> {
  for (;;) {
    await pause(ASK_EVERY_MS, undefined, { signal, ref: false }).catch(() => undefined);
    if (signal.aborted) return;
    try {
      await makeReady(objects, config, log);
      return await renew(objects, cluster, signal, log);
    } catch (err) {
      if (!isAway(err)) log.error({ err }, 'the object store cannot be used');
    }
  }
}

async function renew(objects: MinioStore, { services }: Cluster, signal: AbortSignal, log: Logger): Promise<void> {
  try {
    const subscriptions = await renewSubscriptions(services, objects, signal);
    log.debug({ subscriptions }, 'the rules of the object store are as they should be');
  } catch (err) {
    if (!signal.aborted)
      log.warn({ err }, 'the rules of the object store could not be looked at: objects are found late');
  }
}

const isAway = (error: unknown) => error instanceof StoreError && error.code === 'unavailable';

async function keysOf(uid: string, secrets: SecretStore): Promise<StoreKeys | undefined> {
  const { accessKey, secretKey } = (await secrets.get('user', uid))?.values ?? {};
  return accessKey && secretKey && { accessKey, secretKey };
}
