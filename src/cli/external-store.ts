import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import { isAway } from '../cluster/index.ts';
import type { Config } from '../config.ts';
import { type EventSource, renewSubscriptions, type StoreKeys } from '../storage/index.ts';
import type { S3Store } from '../storage/minio/index.ts';
import type { Cluster } from './cluster.ts';
import type { EventTrouble } from './event-trouble.ts';
import { type EventWatch, watchEvents } from './event-watch.ts';
import type { OpenStore } from './object-store.ts';
import { type StartWatch, watchStarts } from './start-watch.ts';

/** How often a store that does not answer is asked again. Longer: who installs both has to wait for their first service. */
const ASK_EVERY_MS = 2_000;

/** How often it is looked whether the store reports new objects: its operator may have started it anew. */
const LOOK_EVERY_MS = 60_000;

/**
 * A MinIO that has just started reads its buckets while it answers already, and then forgets rules that came in between. So
 * they are looked at again, later each time: one with thousands of buckets takes minutes to read them.
 */
const MEND_AFTER_MS = [0, 5_000, 60_000, 300_000];

/** A store that has been up for longer than this at our start has read its buckets. */
const SETTLED_MS = 600_000;

/** It sends its events to our hook, and keeps those that it cannot deliver: there is nothing to take from it. */
const SENT_TO_THE_HOOK: EventSource = {
  take: async () => [],
  acknowledge: async () => undefined,
  onEvents: () => () => undefined,
  backlog: async () => ({ events: 0 }),
};

/** How any store that stands elsewhere is reached. */
export const storeOptions = (config: Config, publicEndpoint: string, keys: StoreKeys, log: Logger) => ({
  endpoint: config.minioEndpoint,
  publicEndpoint,
  region: config.minioRegion,
  verify: config.minioTlsVerify,
  keys,
  managerName: config.name,
  report: (err: unknown, what: string) => log.warn({ err }, what),
  stagingBucket: config.stagingBucket,
});

export interface ExternalStore {
  readonly objects: S3Store;
  /** Why it does not report new objects. */
  readonly trouble: () => Promise<EventTrouble | undefined>;
  /** For how many milliseconds its youngest server has been up, where it tells that. */
  readonly upFor?: () => Promise<number>;
  /** Says in the log what else is missing. */
  readonly look?: () => Promise<void>;
  /** What else is put right once it answers, while the manager works already. */
  readonly mend?: (signal: AbortSignal) => Promise<void>;
}

/**
 * Takes up a store that stands elsewhere. One that is away stops nobody from starting: what needs it says so, and once it
 * answers, it is made ready. A bucket of the manager's that somebody else has does stop the start.
 */
export async function takeUp(
  store: ExternalStore,
  config: Config,
  endpoint: string,
  cluster: Cluster,
  log: Logger,
): Promise<OpenStore> {
  const { objects } = store;
  const ending = new AbortController();
  const { signal } = ending;
  const mendNow = () => mend(store, cluster, signal, log);
  const mendForAWhile = () => void mendAgain(mendNow, signal);
  const watch = watchEvents(store.trouble, log, mendForAWhile);
  const ready = () => makeReady(store, watch, config, log);
  const keepRight = async () => {
    const starts = watchStarts(store.upFor, SETTLED_MS);
    if (await starts.look().catch(() => false)) mendForAWhile();
    else void mendNow();
    await lookAgain(watch, starts, mendForAWhile, signal);
  };
  try {
    await ready();
    void keepRight();
  } catch (error) {
    if (!isAway(error)) {
      objects.close();
      throw error;
    }
    log.warn({ err: error, endpoint: config.minioEndpoint }, 'the object store does not answer: it is asked again');
    void untilReady(ready, error, signal, log).then(keepRight);
  }
  return {
    objects,
    events: SENT_TO_THE_HOOK,
    endpoint,
    inside: config.minioEndpoint,
    time: () => objects.time(),
    trouble: () => watch.look(),
    async close() {
      ending.abort();
      objects.close();
    },
  };
}

async function makeReady(
  { objects, look }: ExternalStore,
  watch: EventWatch,
  config: Config,
  log: Logger,
): Promise<void> {
  await objects.ensureStaging();
  if (!(await objects.takesSeveralManagers())) {
    log.warn('the object store does not look at the conditions of a write: upgrade it, or run one manager only');
  }
  await look?.();
  await watch.look();
  log.info({ endpoint: config.minioEndpoint }, 'object store is up');
}

async function untilReady(ready: () => Promise<void>, first: Error, signal: AbortSignal, log: Logger): Promise<void> {
  let told = first.message;
  for (;;) {
    await pause(ASK_EVERY_MS, undefined, { signal, ref: false }).catch(() => undefined);
    if (signal.aborted) return;
    try {
      return await ready();
    } catch (err) {
      // Each reason once: one that was away may come back, and refuse.
      const problem = err instanceof Error ? err.message : String(err);
      if (problem !== told) log.error({ err }, 'the object store cannot be used: it is asked again');
      told = problem;
    }
  }
}

async function lookAgain(
  watch: EventWatch,
  starts: StartWatch,
  startedAnew: () => void,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    await pause(LOOK_EVERY_MS, undefined, { signal, ref: false }).catch(() => undefined);
    if (signal.aborted) return;
    // That a store does not answer is said by whoever needs it.
    await watch.look().catch(() => undefined);
    if (await starts.look().catch(() => false)) startedAnew();
  }
}

async function mendAgain(mendNow: () => Promise<void>, signal: AbortSignal): Promise<void> {
  for (const ms of MEND_AFTER_MS) {
    await pause(ms, undefined, { signal, ref: false }).catch(() => undefined);
    if (signal.aborted) return;
    await mendNow();
  }
}

async function mend(
  { objects, mend: more }: ExternalStore,
  { services }: Cluster,
  signal: AbortSignal,
  log: Logger,
): Promise<void> {
  if (signal.aborted) return;
  try {
    await more?.(signal);
    const subscriptions = await renewSubscriptions(services, objects, signal);
    log.debug({ subscriptions }, 'the rules of the object store are as they should be');
  } catch (err) {
    if (!signal.aborted)
      log.warn({ err }, 'the rules of the object store could not be looked at: objects are found late');
  }
}
