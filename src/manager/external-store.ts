import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { S3Store } from '../adapters/object-stores/s3/index.ts';
import type { Config } from '../config/index.ts';
import { type EventSource, isUnavailable, type StoreKeys } from '../ports/index.ts';
import { renewSubscriptions } from '../services/index.ts';
import type { OpenedCluster } from './cluster.ts';
import type { OpenedStore } from './object-store.ts';

/** Retry interval while the store does not answer. Longer: after installing both, the first service waits for longer. */
const ASK_EVERY_MS = 2_000;

/** How often the manager checks whether the store reports new objects, because the store may have been restarted. */
const LOOK_EVERY_MS = 60_000;

/**
 * A MinIO that has just started answers while it still loads its buckets, and then loses rules that were set in between. So
 * the manager checks them again, with growing delays: loading thousands of buckets takes minutes.
 */
const MEND_AFTER_MS = [0, 5_000, 60_000, 300_000];

/** A store that has been up for longer than this when the manager starts has loaded its buckets. */
const SETTLED_MS = 600_000;

/** The store sends its events to our webhook and stores those that it cannot deliver, so that there is nothing to poll. */
const SENT_TO_THE_HOOK: EventSource = {
  take: async () => [],
  acknowledge: async () => undefined,
  onEvents: () => () => undefined,
  backlog: async () => ({ events: 0 }),
};

/** How to connect to an external store. */
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

interface ExternalStore {
  readonly objects: S3Store;
  /** Why the store does not report new objects. */
  readonly trouble: () => Promise<EventTrouble | undefined>;
  /** Milliseconds since its newest server started, if the store reports it. */
  readonly upFor?: () => Promise<number>;
  /** Logs what else is missing. */
  readonly look?: () => Promise<void>;
  /** Further set-up after the store has answered, while the manager is already running. */
  readonly mend?: (signal: AbortSignal) => Promise<void>;
}

/**
 * Opens an external store. The manager starts even if the store does not answer: requests that need it fail, and it is set up
 * once it answers. The start fails if the manager's own bucket belongs to another user.
 */
export async function takeUp(
  store: ExternalStore,
  config: Config,
  endpoint: string,
  cluster: OpenedCluster,
  log: Logger,
): Promise<OpenedStore> {
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
    if (!isUnavailable(error)) {
      objects.close();
      throw error;
    }
    log.warn({ err: error, endpoint: config.minioEndpoint }, 'the object store does not answer: retrying');
    void untilReady(ready, error, signal, log).then(keepRight);
  }
  return {
    objects,
    events: SENT_TO_THE_HOOK,
    endpoint,
    inside: config.minioEndpoint,
    time: () => objects.time(),
    reach: () => objects.time(),
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
  if (!(await objects.supportsSeveralManagers())) {
    log.warn('the object store ignores conditional writes: upgrade it, or run one manager only');
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
      // Each reason is logged once: a store that was unreachable may come back and reject requests.
      const problem = err instanceof Error ? err.message : String(err);
      if (problem !== told) log.error({ err }, 'the object store cannot be used: retrying');
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
    // A store that does not answer is reported by the operations that need it.
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
  { services }: OpenedCluster,
  signal: AbortSignal,
  log: Logger,
): Promise<void> {
  if (signal.aborted) return;
  try {
    await more?.(signal);
    const subscriptions = await renewSubscriptions(services, objects, signal);
    log.debug({ subscriptions }, 'the event rules of the object store are correct');
  } catch (err) {
    if (!signal.aborted)
      log.warn({ err }, 'could not check the event rules of the object store: new objects are found late');
  }
}

/** Watches a store that can be restarted with other settings at any time. */
interface EventWatch {
  /** Why it does not report new objects now. A change since the last call is logged once. */
  look(): Promise<EventTrouble | undefined>;
}

/** `eased` is called when fewer targets are missing than before: rules that failed then can be created now. */
export function watchEvents(
  ask: () => Promise<EventTrouble | undefined>,
  log: Pick<Logger, 'info' | 'warn'>,
  eased: () => void,
): EventWatch {
  let told: readonly string[] | undefined;
  return {
    async look() {
      const trouble = await ask();
      const set = trouble?.set ?? [];
      const before = told;
      if (before?.join('\n') === set.join('\n')) return trouble;
      told = set;
      if (trouble) log.warn({ set }, trouble.problem);
      else if (before) log.info('the object store reports new objects again');
      if (before && set.length < before.length) eased();
      return trouble;
    },
  };
}

/** Detects restarts of an external store, which the store does not report. */
interface StartWatch {
  /** Whether it was restarted since the last check that it answered. */
  look(): Promise<boolean>;
}

/** Tolerance: the store counts in whole seconds, and the request takes time. */
const INEXACT_MS = 2_000;

/** `upFor` is how long the store has been up; the first check compares with `before`. All in milliseconds. */
export function watchStarts(
  upFor: (() => Promise<number>) | undefined,
  before: number,
  now = () => performance.now(),
): StartWatch {
  let looked = now() - before;
  return {
    async look() {
      if (!upFor) return false;
      const asked = now();
      const up = await upFor();
      const since = asked - looked;
      looked = asked;
      return up < since + INEXACT_MS;
    },
  };
}

/** Why the store does not report new objects, and what to set. Secrets are not in it. */
export interface EventTrouble {
  readonly problem: string;
  readonly set: string[];
}

type Settings = Pick<Config, 'eventsToken' | 'endpoint'>;

/** The targets of the manager. */
const NO_TOKEN: EventTrouble = {
  problem: 'OSCAR_EVENTS_TOKEN is not set: what the object store reports is refused, and new objects are found late',
  set: ['OSCAR_EVENTS_TOKEN=<one word, for the manager>'],
};

/** For a MinIO that does not have these targets of the manager. */
export function minioTrouble(missing: readonly string[], settings: Settings): EventTrouble | undefined {
  const { eventsToken, endpoint = '<this manager>' } = settings;
  if (missing.length === 0) return eventsToken ? undefined : NO_TOKEN;
  return {
    problem:
      'the object store does not report new objects: set this in its environment, as docs/minio.md says, and restart it. ' +
      'Until then they are looked for every few minutes',
    set: [
      ...(eventsToken ? [] : NO_TOKEN.set),
      ...missing.flatMap((target) => [
        `MINIO_NOTIFY_WEBHOOK_ENABLE_${target}=on`,
        `MINIO_NOTIFY_WEBHOOK_ENDPOINT_${target}=${endpoint}/system/events/storage`,
        `MINIO_NOTIFY_WEBHOOK_AUTH_TOKEN_${target}=<OSCAR_EVENTS_TOKEN of the manager>`,
        // The other target drops what it cannot deliver, which makes it fast.
        ...(target === 'OSCAR_DURABLE'
          ? [`MINIO_NOTIFY_WEBHOOK_QUEUE_DIR_${target}=<a directory on a persistent disk>`]
          : []),
      ]),
    ],
  };
}

/** For another store that does not have these targets of the settings. */
export function plainTrouble(
  missing: readonly string[],
  settings: Settings & Pick<Config, 'storeEventTargets'>,
): EventTrouble | undefined {
  const { eventsToken, storeEventTargets } = settings;
  if (missing.length > 0) {
    return {
      problem:
        'the object store does not know these OSCAR_STORE_EVENT_TARGETS: new objects are found late. ' +
        'Compare with what the store calls them, region included',
      set: missing.map((target) => `OSCAR_STORE_EVENT_TARGETS=<another name than ${target}, for the manager>`),
    };
  }
  return storeEventTargets.length > 0 && !eventsToken ? NO_TOKEN : undefined;
}
