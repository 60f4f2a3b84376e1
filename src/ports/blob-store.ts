import type { Readable } from 'node:stream';
import type { Cursor, Page } from '../lib/version.ts';

export interface BlobEntry {
  readonly key: string;
  /** When it was last put, in milliseconds, by the clock of the store. */
  readonly putAt: number;
}

/**
 * Stores what is too large for records: events, inputs and answers of jobs. The writer keeps the key in a record and removes
 * the blob together with that record; blobs that were left behind are found with `list`. Keys consist of letters, digits,
 * `-`, `_`, `.` and `/`.
 */
export interface BlobStore {
  /** The blob is durable before this resolves. */
  put(key: string, bytes: Uint8Array): Promise<void>;

  /** Undefined if there is no such blob. */
  get(key: string): Promise<Readable | undefined>;

  /** Removes all blobs whose key begins with the prefix; does nothing if there are none. */
  remove(prefix: string): Promise<void>;

  /** All blobs, sorted by key, in pages. Throws `expired` for an invalid cursor. */
  list(cursor?: Cursor): Promise<Page<BlobEntry>>;

  /** A URL with which anybody can read this blob for so many seconds. The blob may be put later. */
  urlToGet(key: string, seconds: number): Promise<string>;

  /** A URL with which anybody can write this blob for so many seconds, also several times. */
  urlToPut(key: string, seconds: number): Promise<string>;
}
