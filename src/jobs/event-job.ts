import type { NewJob } from '../cluster/index.ts';
import { inputFolders, type Service } from '../service/index.ts';
import { eventJobName, readStorageEvents, type StorageEvent } from '../storage/index.ts';
import { jsonIn } from './json-in.ts';

/** What a storage event says about the job that it causes. */
export type EventJob = Pick<NewJob, 'id' | 'object'>;

/** The job of an event for this service; the same for the same event again (design §5). */
export function jobOfEvent(event: StorageEvent, { uid, definition: { name } }: Service): EventJob {
  const { bucket, key, modifiedAt } = event;
  return {
    id: eventJobName({ uid, name }, event),
    object: { bucket, key, ...(modifiedAt !== undefined && { modifiedAt }) },
  };
}

/** Does the object lie under an input of the service? */
export function isInput({ bucket, key }: Pick<StorageEvent, 'bucket' | 'key'>, service: Service): boolean {
  return inputFolders(service).some((input) => input.bucket === bucket && key.startsWith(`${input.folder}/`));
}

/** The same for bytes that may be such an event, or anything else. */
export function eventJob(bytes: Uint8Array, service: Service): EventJob | undefined {
  const events = readStorageEvents(jsonIn(bytes));
  const [event] = events;
  return event && events.length === 1 && isInput(event, service) ? jobOfEvent(event, service) : undefined;
}
