import { OscarError } from '../base/oscar-error.ts';
import { readStorageEvents, type StorageEvent } from '../storage/index.ts';
import type { Jobs } from './jobs.ts';
import { submitEvent } from './submit-event.ts';

export interface Receiving {
  readonly jobs: Pick<Jobs, 'store' | 'dispatcher' | 'now' | 'place' | 'services' | 'storeAccount'>;
  /** Told of an event that nobody can keep, and that will not come again. */
  readonly report: (problem: unknown) => void;
}

/**
 * Accepts what a store sent to its webhook: the jobs are on the disk when this resolves. It rejects only while nothing
 * can be kept. Everything else is taken, test messages and nonsense too, since a store sends what was refused for ever,
 * and nothing after it.
 */
export async function receiveEvents(body: Uint8Array, { jobs, report }: Receiving): Promise<void> {
  const outcomes = await Promise.allSettled(eventsIn(body).map(({ event, json }) => submitEvent(event, json, jobs)));
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
function eventsIn(body: Uint8Array): Received[] {
  const parsed = jsonOf(body);
  const records = recordsIn(parsed);
  if (records.length === 1) return readStorageEvents(parsed).map((event) => ({ event, json: body }));
  return records.flatMap((record) =>
    readStorageEvents({ Records: [record] }).map((event) => ({ event, json: alone(record, event) })),
  );
}

/** As MinIO sends it, which never sends two at a time. */
function alone(record: unknown, { bucket, key }: StorageEvent): Uint8Array {
  const { eventName } = record as { eventName: string };
  return Buffer.from(JSON.stringify({ EventName: eventName, Key: `${bucket}/${key}`, Records: [record] }));
}

function recordsIn(parsed: unknown): readonly unknown[] {
  const { Records: records } = (parsed ?? {}) as { Records?: unknown };
  return Array.isArray(records) ? records : [];
}

function jsonOf(body: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString());
  } catch {
    return undefined;
  }
}
