import { buffer } from 'node:stream/consumers';
import { type BlobStore, StoreError } from '../../../ports/index.ts';
import { type EventPlace, eventDigest, newJobVersion, type ShelvedEvent } from './job-object.ts';

/** A larger event lies on the shelf: an object may have 256 KiB of annotations, and every manager is sent all of them. */
const MOST_INLINE = 64 * 1024;

/** Keeps the events that are too large for an object. */
export class EventBlobs {
  readonly #report: (problem: unknown) => void;
  #shelf: BlobStore | undefined;

  constructor(report: (problem: unknown) => void) {
    this.#report = report;
  }

  use(shelf: BlobStore): void {
    this.#shelf = shelf;
  }

  /** Before its job is made: a job always has its event. Each time under a key of its own, since a job may come twice. */
  async put(event: Uint8Array, job: { readonly namespace: string; readonly name: string }): Promise<EventPlace> {
    if (event.byteLength <= MOST_INLINE) return { inline: event };
    const shelved = { key: `events/${job.namespace}/${job.name}/${newJobVersion()}`, sha256: eventDigest(event) };
    await this.#opened().put(shelved.key, event);
    return { shelved };
  }

  async read(place: EventPlace): Promise<Uint8Array> {
    if ('inline' in place) return place.inline;
    const { key, sha256 } = place.shelved;
    const stream = await this.#opened().get(key);
    const event = stream && new Uint8Array(await buffer(stream));
    if (event && eventDigest(event) === sha256) return event;
    const found = event ? 'something else is there' : 'nothing is there';
    throw new StoreError('damaged', `the event of a job is not on the shelf where it was put (${key}): ${found}`);
  }

  /** In the background: what stays costs room, nothing else. */
  drop(shelved: ShelvedEvent | undefined): void {
    if (shelved) void this.#shelf?.remove(shelved.key).catch(this.#report);
  }

  #opened(): BlobStore {
    if (this.#shelf) return this.#shelf;
    throw new StoreError('unavailable', 'the object store is not open yet, in which large events are kept: try again');
  }
}
