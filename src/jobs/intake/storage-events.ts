import { OscarError } from '../../lib/oscar-error.ts';
import { readStorageEvents, type StorageEvent } from '../../model/job/index.ts';
import { CLUSTER_ADMIN, type Service } from '../../model/service/index.ts';
import { readsBucket } from '../../ports/index.ts';
import { isInput, jobForEvent } from '../event.ts';
import type { Jobs } from '../jobs.ts';
import { acceptJob } from './submit.ts';

/**
 * Accepts a job for every service whose input covers this object. The records are durable before this resolves. The event
 * comes from the authenticated store of this cluster, so the jobs have the rights of the services' owners. Calling it again
 * with the same event is a no-op. Resolves to the number of services.
 */
export async function submitEvent(
  event: StorageEvent,
  json: Uint8Array,
  jobs: Pick<Jobs, 'store' | 'scheduler' | 'now' | 'place' | 'services' | 'storeAccount'>,
): Promise<number> {
  const services = await findSubscribers(event, jobs);
  await Promise.all(services.map((service) => acceptEvent(event, json, service, jobs)));
  return services.length;
}

/** Accepts the job of one service for this object. */
export async function acceptEvent(
  event: StorageEvent,
  json: Uint8Array,
  service: Service,
  jobs: Pick<Jobs, 'store' | 'scheduler' | 'now' | 'place' | 'storeAccount'>,
): Promise<void> {
  const arrival = {
    ...jobForEvent(event, service),
    principal: service.owner,
    invoker: event.principal === jobs.storeAccount ? CLUSTER_ADMIN : (event.principal ?? ''),
    trigger: 'storage',
    byToken: false,
  } as const;
  await acceptJob(service, arrival, json, jobs);
}

/** The store reports only subscribed prefixes. A service that another manager has just created may not be in the cache yet. */
async function findSubscribers(event: StorageEvent, jobs: Pick<Jobs, 'services'>): Promise<Service[]> {
  const known = await listSubscribers(event, jobs, false);
  return known.length > 0 ? known : listSubscribers(event, jobs, true);
}

async function listSubscribers(
  event: StorageEvent,
  { services }: Pick<Jobs, 'services'>,
  fresh: boolean,
): Promise<Service[]> {
  const query = { anyOf: [readsBucket(event.bucket)] };
  const found: Service[] = [];
  let page = await services.list({ ...query, fresh });
  for (;;) {
    for (const { service } of page.items) if (isInput(event, service)) found.push(service);
    if (page.next === undefined) return found;
    page = await services.list({ ...query, cursor: page.next });
  }
}

interface Receiving {
  readonly jobs: Pick<Jobs, 'store' | 'scheduler' | 'now' | 'place' | 'services' | 'storeAccount'>;
  /** Called with the error of an event that cannot be stored and will not be sent again. */
  readonly report: (problem: unknown) => void;
}

/**
 * Accepts the body that a store posted to the webhook. The records of the jobs are durable when this resolves. It rejects
 * only while the job store is unavailable. Test messages and invalid bodies are accepted and ignored, because a store sends
 * a rejected message for ever, and nothing after it.
 */
export async function receiveEvents(body: Uint8Array, { jobs, report }: Receiving): Promise<void> {
  const outcomes = await Promise.allSettled(parseEvents(body).map(({ event, json }) => submitEvent(event, json, jobs)));
  for (const outcome of outcomes) {
    if (outcome.status === 'fulfilled') continue;
    if (!isFinalRefusal(outcome.reason)) throw outcome.reason;
    report(outcome.reason);
  }
}

/** Whether a retry would fail in the same way. */
function isFinalRefusal(error: unknown): boolean {
  return error instanceof OscarError && error.code !== 'unavailable';
}

interface Received {
  readonly event: StorageEvent;
  /** The event as the script sees it. */
  readonly json: Uint8Array;
}

/** One event per record. A body with a single record is passed on byte by byte. */
function parseEvents(body: Uint8Array): Received[] {
  const parsed = parseJson(body);
  const records = recordsOf(parsed);
  if (records.length === 1) return readStorageEvents(parsed).map((event) => ({ event, json: body }));
  return records.flatMap((record) =>
    readStorageEvents({ Records: [record] }).map((event) => ({ event, json: toSingleEvent(record, event) })),
  );
}

/** In the form of MinIO, which never sends two records in one message. */
function toSingleEvent(record: unknown, { bucket, key }: StorageEvent): Uint8Array {
  const { eventName } = record as { eventName: string };
  return Buffer.from(JSON.stringify({ EventName: eventName, Key: `${bucket}/${key}`, Records: [record] }));
}

function recordsOf(parsed: unknown): readonly unknown[] {
  const { Records: records } = (parsed ?? {}) as { Records?: unknown };
  return Array.isArray(records) ? records : [];
}

function parseJson(body: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString());
  } catch {
    return undefined;
  }
}
