import type { Cursor, Page, Version } from '../lib/version.ts';
import { StoreError } from './errors.ts';

/**
 * Durable intents: what was begun here and must be finished or undone, whoever is running by then. An entry holds ids,
 * digests, addresses and a state, never definitions or secrets, because it outlives both and is read in the open.
 */
export interface Journal {
  /** Throws `exists` when the key is in use, `too-large` like {@link advance}. */
  begin(key: string, state: JournalState): Promise<JournalEntry>;

  read(key: string): Promise<JournalEntry | undefined>;

  /**
   * Takes an entry to work on it: of all who saw `expected`, one gets a new version, everybody else is told `busy`, even
   * when the entry is finished by then.
   * What is done next carries that version, so that a claimer who was overtaken notices at its next step.
   */
  claim(key: string, expected: Version): Promise<Version | 'busy'>;

  /**
   * Writes the next state. Throws `conflict` when the entry has another version, `absent` when it is gone, `too-large`
   * when the state is over {@link JOURNAL_STATE_BYTES}.
   */
  advance(key: string, expected: Version, state: JournalState): Promise<Version>;

  /** The work is done: removes the entry. Throws like {@link advance}. */
  finish(key: string, expected: Version): Promise<void>;

  /** Entries whose key begins with the prefix, ordered by key. */
  list(prefix: string, cursor?: Cursor): Promise<Page<JournalEntry>>;
}

export type JournalValue = string | number | boolean | null | JournalValue[] | { [key: string]: JournalValue };
export type JournalState = { [key: string]: JournalValue };

/** Largest state that fits, as compact JSON: an entry is one object of the Kubernetes API, which are small. */
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
