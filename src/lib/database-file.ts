import { existsSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { syncDirectory } from './sync-directory.ts';

/** SQLite's codes for a file whose content is damaged, and for one that is no database. */
const SQLITE_CORRUPT = 11;
const SQLITE_NOTADB = 26;

/**
 * Databases up to this size are checked completely at each start, which takes some 10 ms for each 10 MiB. Larger: starts
 * take longer. Smaller: damage in more databases is found only when it is read.
 */
const CHECKED_BYTES = 64 * 1024 * 1024;

const RESTORE = 'restore the data directory from a backup';

/**
 * The file of a SQLite database in WAL mode, and a mark next to it that exists while the database is in use. A database
 * that was closed has no log; one that was not has a log with changes that are nowhere else. So a mark without a log
 * means that changes are lost, which SQLite itself does not notice.
 */
export class DatabaseFile {
  readonly #path: string;
  readonly #mark: string;

  constructor(path: string) {
    this.#path = path;
    this.#mark = `${path}-in-use`;
  }

  /**
   * Why the file must not be opened, as a sentence; undefined if it may. `usedBefore` is a file that exists once the
   * database has been used.
   */
  findLoss(usedBefore: string): string | undefined {
    const size = statSync(this.#path, { throwIfNoEntry: false })?.size ?? 0;
    const marked = existsSync(this.#mark);
    if (size === 0 && existsSync(`${this.#path}-wal`) && marked) return undefined;
    if (size === 0 && (marked || existsSync(usedBefore))) {
      return `${this.#path} is missing or empty, but it was in use before: ${RESTORE}, or start with an empty one`;
    }
    if (marked && !existsSync(`${this.#path}-wal`)) {
      return (
        `${this.#path}-wal is missing, and the last changes were in it: put it back, or ${RESTORE}; to start without ` +
        `these changes, remove ${this.#mark}`
      );
    }
    return undefined;
  }

  /** Call it when the database is open and its log exists. On a full disk the mark may be missing: then nothing is checked. */
  markInUse(): void {
    try {
      writeFileSync(this.#mark, '', { mode: 0o600 });
      syncDirectory(dirname(this.#path));
    } catch {
      // The mark is a safety net. A database that can be used without it is used.
    }
  }

  /** Call it after the last write and before the database is closed: then SQLite removes the log. */
  markClosed(): void {
    try {
      rmSync(this.#mark, { force: true });
      // A power cut must not bring the mark back after the log was removed.
      syncDirectory(dirname(this.#path));
    } catch {
      // The directory was removed.
    }
  }

  /** Why the content is damaged, as a sentence; undefined if it is not. */
  findDamage(database: DatabaseSync): string | undefined {
    if ((statSync(this.#path, { throwIfNoEntry: false })?.size ?? 0) > CHECKED_BYTES) return undefined;
    const found = database.prepare('PRAGMA quick_check(1)').get()?.['quick_check'];
    return found === 'ok' ? undefined : this.#describeDamage(String(found));
  }

  /** The same for an error of SQLite. */
  explain(error: unknown): string | undefined {
    if (!(error instanceof Error) || !('errcode' in error)) return undefined;
    const code = Number(error.errcode) & 0xff;
    return code === SQLITE_CORRUPT || code === SQLITE_NOTADB ? this.#describeDamage(error.message) : undefined;
  }

  #describeDamage(detail: string): string {
    return `${this.#path} is damaged: ${RESTORE} (SQLite: ${detail.split('\n')[0]})`;
  }
}
