import type { Cursor, Page, Version } from '../lib/version.ts';
import { StoreError } from './errors.ts';

/**
 * Durable intents: operations that were begun and must be finished or undone, also by a later manager. An entry contains
 * ids, digests, addresses and a state, but no definitions and no secrets, because it outlives both and is not encrypted.
 */
export interface Journal {
  /** Throws `exists` when the key is in use, `too-large` like {@link advance}. */
  begin(key: string, state: JournalState): Promise<JournalEntry>;

  read(key: string): Promise<JournalEntry | undefined>;

  /**
   * Claims an entry: of all callers that saw `expected`, one gets a new version and the others get `busy`, even if the entry
   * is finished by then. The next write uses that version, so a claimer that was overtaken notices at its next step.
   */
  claim(key: string, expected: Version): Promise<Version | 'busy'>;

  /**
   * Writes the next state. Throws `conflict` if the entry has another version, `absent` if it was removed, `too-large`
   * if the state is over {@link JOURNAL_STATE_BYTES}.
   */
  advance(key: string, expected: Version, state: JournalState): Promise<Version>;

  /** The work is done: removes the entry. Throws like {@link advance}. */
  finish(key: string, expected: Version): Promise<void>;

  /** Entries whose key begins with the prefix, ordered by key. */
  list(prefix: string, cursor?: Cursor): Promise<Page<JournalEntry>>;
}

export type JournalValue = string | number | boolean | null | JournalValue[] | { [key: string]: JournalValue };
export type JournalState = { [key: string]: JournalValue };

/** Largest state, as compact JSON: an entry is one object of the Kubernetes API, whose size is limited. */
export const JOURNAL_STATE_BYTES = 64 * 1024;

export interface JournalEntry {
  readonly key: string;
  readonly state: JournalState;
  readonly version: Version;
}

/** The state of an entry as it is stored. Throws `too-large` when it would not fit into every store. */
export function packState(key: string, state: JournalState): string {
  const packed = JSON.stringify(state);
  const size = Buffer.byteLength(packed);
  if (size <= JOURNAL_STATE_BYTES) return packed;
  const message = `the state of "${key}" in the journal has ${size} bytes, and ${JOURNAL_STATE_BYTES} is the most`;
  throw new StoreError('too-large', message);
}
