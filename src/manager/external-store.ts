import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { S3Store } from '../adapters/object-stores/s3/index.ts';
import type { Config } from '../config/index.ts';
import { type EventSource, isUnavailable, type StoreKeys } from '../ports/index.ts';
import { renewSubscriptions } from '../services/index.ts';
import type { OpenedCluster } from './cluster.ts';
import type { OpenedStore } from './object-store.ts';

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

interface ExternalStore {
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
  if (!(await objects.supportsSeveralManagers())) {
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
  { services }: OpenedCluster,
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

/** What is kept of a store that can be started anew, with other settings, at any time. */
interface EventWatch {
  /** Why it does not report new objects now. What has changed since the last time is told in the log, once. */
  look(): Promise<EventTrouble | undefined>;
}

/** `eased` is called when it lacks less than before: rules that could not be made then can be made now. */
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

/** Whether a store that stands elsewhere was started anew: that can be at any time, and nobody tells us. */
interface StartWatch {
  /** Was it, since it was last looked and it answered? */
  look(): Promise<boolean>;
}

/** It counts in whole seconds, and our question takes a while. */
const INEXACT_MS = 2_000;

/** `upFor` is how long it has been up now; the first look is at the last `before`. All of it milliseconds. */
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

/** The manager's own. */
const NO_TOKEN: EventTrouble = {
  problem: 'OSCAR_EVENTS_TOKEN is not set: what the object store reports is refused, and new objects are found late',
  set: ['OSCAR_EVENTS_TOKEN=<one word, for the manager>'],
};

/** Of a MinIO that lacks these of our targets. */
export function minioTrouble(missing: readonly string[], settings: Settings): EventTrouble | undefined {
  const { eventsToken, endpoint = '<this manager>' } = settings;
  if (missing.length === 0) return eventsToken ? undefined : NO_TOKEN;
  return {
    problem:
      'the object store does not report new objects: set this in its environment, as docs/minio.md says, and start it once. ' +
      'Until then they are looked for every few minutes',
    set: [
      ...(eventsToken ? [] : NO_TOKEN.set),
      ...missing.flatMap((target) => [
        `MINIO_NOTIFY_WEBHOOK_ENABLE_${target}=on`,
        `MINIO_NOTIFY_WEBHOOK_ENDPOINT_${target}=${endpoint}/system/events/storage`,
        `MINIO_NOTIFY_WEBHOOK_AUTH_TOKEN_${target}=<OSCAR_EVENTS_TOKEN of the manager>`,
        // The other one forgets what it cannot deliver, which makes it quick.
        ...(target === 'OSCAR_DURABLE'
          ? [`MINIO_NOTIFY_WEBHOOK_QUEUE_DIR_${target}=<a directory on a disk that it keeps>`]
          : []),
      ]),
    ],
  };
}

/** Of another store, which does not know these of the targets that the operator has named. */
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
