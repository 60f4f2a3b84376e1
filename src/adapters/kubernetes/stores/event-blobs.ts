import { buffer } from 'node:stream/consumers';
import { type BlobStore, StoreError } from '../../../ports/index.ts';
import { type EventBlob, type EventLocation, eventDigest, newJobVersion } from './job-object.ts';

/**
 * Larger events are stored as blobs. Kubernetes allows 256 KiB of annotations on an object, and every manager receives all
 * of them; a smaller limit would cost a request to the object store for more jobs.
 */
const MOST_INLINE = 64 * 1024;

/** Stores the events that are too large for an annotation. */
export class EventBlobs {
  readonly #report: (problem: unknown) => void;
  #blobs: BlobStore | undefined;

  constructor(report: (problem: unknown) => void) {
    this.#report = report;
  }

  use(blobs: BlobStore): void {
    this.#blobs = blobs;
  }

  /** Called before the Job is created, so that a job always has its event. The key is unique because a job may be submitted twice. */
  async put(event: Uint8Array, job: { readonly namespace: string; readonly name: string }): Promise<EventLocation> {
    if (event.byteLength <= MOST_INLINE) return { inline: event };
    const blob = { key: `events/${job.namespace}/${job.name}/${newJobVersion()}`, sha256: eventDigest(event) };
    await this.#opened().put(blob.key, event);
    return { blob };
  }

  async read(location: EventLocation): Promise<Uint8Array> {
    if ('inline' in location) return location.inline;
    const { key, sha256 } = location.blob;
    const stream = await this.#opened().get(key);
    const event = stream && new Uint8Array(await buffer(stream));
    if (event && eventDigest(event) === sha256) return event;
    const found = event ? 'its content was changed' : 'it does not exist';
    throw new StoreError('damaged', `the event of the job cannot be read from the object store (${key}): ${found}`);
  }

  /** Removes it in the background. If that fails, the blob only takes space until the next sweep. */
  drop(blob: EventBlob | undefined): void {
    if (blob) void this.#blobs?.remove(blob.key).catch(this.#report);
  }

  #opened(): BlobStore {
    if (this.#blobs) return this.#blobs;
    throw new StoreError('unavailable', 'large events are kept in the object store, which is not open yet: retry');
  }
}
