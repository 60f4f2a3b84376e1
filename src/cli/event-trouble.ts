import type { Config } from '../config.ts';

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
