import type { Cursor, Page, Version } from '../../lib/version.ts';
import {
  cursorAfter,
  cursorPosition,
  type Journal,
  type JournalEntry,
  type JournalState,
  packState,
  StoreError,
} from '../../ports/index.ts';
import { type Database, newVersion, type PreparedQuery } from './database.ts';

const PAGE = 100;

interface Row {
  key: string;
  version: Version;
  state: string;
}

/** The journal in SQLite. */
export class LocalJournal implements Journal {
  readonly #database: Database;
  readonly #page: number;
  readonly #read: PreparedQuery<Row>;
  readonly #version: PreparedQuery<{ version: Version }>;
  readonly #begin: PreparedQuery<never>;
  readonly #claim: PreparedQuery<never>;
  readonly #advance: PreparedQuery<never>;
  readonly #finish: PreparedQuery<never>;
  readonly #list: PreparedQuery<Row>;

  constructor(database: Database, page = PAGE) {
    this.#database = database;
    this.#page = page;
    this.#read = database.query('SELECT key, version, state FROM journal WHERE key = ?');
    this.#version = database.query('SELECT version FROM journal WHERE key = ?');
    this.#begin = database.query('INSERT INTO journal (key, version, state) VALUES (?, ?, ?) ON CONFLICT DO NOTHING');
    this.#claim = database.query('UPDATE journal SET version = ? WHERE key = ? AND version = ?');
    this.#advance = database.query('UPDATE journal SET version = ?, state = ? WHERE key = ?');
    this.#finish = database.query('DELETE FROM journal WHERE key = ?');
    this.#list = database.query('SELECT key, version, state FROM journal WHERE key >= ? ORDER BY key LIMIT ?');
  }

  async begin(key: string, state: JournalState): Promise<JournalEntry> {
    const row = { key, version: newVersion(), state: packState(key, state) };
    return this.#database.writeReserved(() => {
      if (this.#begin.run(key, row.version, row.state).changes === 1) return toEntry(row);
      throw new StoreError('exists', `"${key}" is already in the journal`);
    });
  }

  async read(key: string): Promise<JournalEntry | undefined> {
    const row = this.#read.get(key);
    return row && toEntry(row);
  }

  async claim(key: string, expected: Version): Promise<Version | 'busy'> {
    const version = newVersion();
    return this.#database.writeReserved(() =>
      this.#claim.run(version, key, expected).changes === 1 ? version : 'busy',
    );
  }

  async advance(key: string, expected: Version, state: JournalState): Promise<Version> {
    const version = newVersion();
    const packed = packState(key, state);
    return this.#database.writeReserved(() => {
      this.#expect(key, expected);
      this.#advance.run(version, packed, key);
      return version;
    });
  }

  async finish(key: string, expected: Version): Promise<void> {
    await this.#database.writeReserved(() => {
      this.#expect(key, expected);
      this.#finish.run(key);
    });
  }

  async list(prefix: string, cursor?: Cursor): Promise<Page<JournalEntry>> {
    const items: JournalEntry[] = [];
    // Keys with the same prefix are adjacent, so the first key without it ends the list.
    for (const row of this.#list.iterate(cursorPosition(cursor, prefix), this.#page + 1)) {
      if (!row.key.startsWith(prefix)) break;
      const last = items.at(-1);
      if (last && items.length === this.#page) return { items, next: cursorAfter(last.key) };
      items.push(toEntry(row));
    }
    return { items };
  }

  #expect(key: string, expected: Version): void {
    const version = this.#version.get(key)?.version;
    if (version === undefined) throw new StoreError('absent', `"${key}" is not in the journal`);
    if (version !== expected) {
      throw new StoreError('conflict', `"${key}" in the journal was claimed by another request meanwhile`);
    }
  }
}

function toEntry({ key, version, state }: Row): JournalEntry {
  const parsed: JournalState = JSON.parse(state);
  return { key, version, state: parsed };
}
