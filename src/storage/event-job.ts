import { uuidV5 } from '../base/uuid.ts';
import type { StorageEvent } from './event.ts';

/** The space of ids that this manager derives. Any constant would do; it must never change. */
const SPACE = 'c0a4d9f2-6b1e-5c3a-9f57-05ca20260001';

/** Names of jobs must fit into 63 characters beside a uuid (contract §3.5). */
const LONG_NAME = 25;
const CUT_NAME = 16;

/** `<service>-<id>`, where a long name of a service is cut. */
export function jobName(service: string, id: string): string {
  return `${service.length >= LONG_NAME ? service.slice(0, CUT_NAME) : service}-${id}`;
}

/**
 * The job of a storage event (design §5). The event, the same event again, and the sweep that finds the object later
 * all give the same name, and a job that exists is not made twice: that is all the deduplication there is, and it holds
 * on any replica. A rewrite of the object has another time, so it is another job.
 */
export function eventJobName(service: { uid: string; name: string }, event: StorageEvent): string {
  const { bucket, key, eTag, modifiedAt } = event;
  return jobName(service.name, uuidV5(SPACE, JSON.stringify([service.uid, bucket, key, eTag, modifiedAt ?? null])));
}
