import type { Readable } from 'node:stream';
import type { Cursor, Page } from '../lib/version.ts';

export interface BlobEntry {
  readonly key: string;
  /** When it was last put, in milliseconds, by the clock of whoever keeps it. */
  readonly putAt: number;
}

/**
 * A place beside the stores for what is too large for them: events, inputs and answers of jobs. Nobody looks for anything
 * here: whoever puts something notes its key in a record, and removes it when the record goes. Where that did not happen it is
 * found in the list. Keys are made of letters, digits, `-`, `_`, `.` and `/`.
 */
export interface BlobStore {
  /** There before it resolves. */
  put(key: string, bytes: Uint8Array): Promise<void>;

  /** Undefined when there is nothing. */
  get(key: string): Promise<Readable | undefined>;

  /** Everything whose key begins with the prefix. What is not there is fine. */
  remove(prefix: string): Promise<void>;

  /** All there is, by key, a page at a time. Throws `expired` for a cursor that is none. */
  list(cursor?: Cursor): Promise<Page<BlobEntry>>;

  /** Whoever has the address can read that one, for so long, whether it is there yet or not. */
  urlToGet(key: string, seconds: number): Promise<string>;

  /** Whoever has the address can write that one, for so long, also several times. */
  urlToPut(key: string, seconds: number): Promise<string>;
}
