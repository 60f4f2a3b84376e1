import { OscarError } from '../../lib/oscar-error.ts';
import { readStorageEvents, type StorageEvent } from '../../model/job/index.ts';
import { CLUSTER_ADMIN, type Service } from '../../model/service/index.ts';
import { readsBucket } from '../../ports/index.ts';
import { isInput, jobForEvent } from '../event.ts';
import type { Jobs } from '../jobs.ts';
import { acceptJob } from './submit.ts';

/**
 * Accepts a job of every service that waits for this object, on the disk before it resolves. The event comes from a store
 * that has proved to be ours: the jobs have the rights of the services' owners. Again: nothing happens. Resolves to how
 * many services there are.
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

/** The store was told to report it for somebody. One that was made just now, at another manager, may not be known here yet. */
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
  /** Told of an event that nobody can keep, and that will not come again. */
  readonly report: (problem: unknown) => void;
}

/**
 * Accepts what a store sent to its webhook: the jobs are on the disk when this resolves. It rejects only while nothing
 * can be kept. Everything else is taken, test messages and nonsense too, since a store sends what was refused for ever,
 * and nothing after it.
 */
export async function receiveEvents(body: Uint8Array, { jobs, report }: Receiving): Promise<void> {
  const outcomes = await Promise.allSettled(parseEvents(body).map(({ event, json }) => submitEvent(event, json, jobs)));
  for (const outcome of outcomes) {
    if (outcome.status === 'fulfilled') continue;
    if (!isFinalRefusal(outcome.reason)) throw outcome.reason;
    report(outcome.reason);
  }
}

/** Another try would end in the same way. */
function isFinalRefusal(error: unknown): boolean {
  return error instanceof OscarError && error.code !== 'unavailable';
}

interface Received {
  readonly event: StorageEvent;
  /** What the script sees. */
  readonly json: Uint8Array;
}

/** One event per record. A body with a single one is passed on as it came, byte by byte. */
function parseEvents(body: Uint8Array): Received[] {
  const parsed = parseJson(body);
  const records = recordsOf(parsed);
  if (records.length === 1) return readStorageEvents(parsed).map((event) => ({ event, json: body }));
  return records.flatMap((record) =>
    readStorageEvents({ Records: [record] }).map((event) => ({ event, json: toSingleEvent(record, event) })),
  );
}

/** As MinIO sends it, which never sends two at a time. */
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
