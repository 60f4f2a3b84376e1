import { chmodSync, closeSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { OscarError } from '../../lib/oscar-error.ts';

/** SQLite's error code if another process has the lock. */
const SQLITE_BUSY = 5;

/** A directory that this process has locked until it releases it or exits. */
export interface DataDirectory {
  file(name: string): string;
  release(): void;
}

/**
 * Creates the directory if necessary, and locks it. The lock is a transaction on a separate file: the kernel releases it on
 * kill -9, so unlike a file with a process id it is never stale. Nothing else in this process may open that file: closing
 * any handle of a file drops all locks of the process on it (POSIX).
 */
export function lockDataDirectory(directory: string): DataDirectory {
  const path = resolve(directory);
  const file = (name: string) => join(path, name);
  const holder = file('manager.pid');
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
    using taken = new DisposableStack();
    const lock = acquireLock(file('manager.lock'));
    if (!lock) throw inUse(path, holder);
    taken.defer(() => lock.close());
    writeFileSync(holder, `${process.pid} on ${hostname()}\n`, { mode: 0o600 });
    taken.defer(() => rmSync(holder, { force: true }));
    const kept = taken.move();
    return { file, release: () => kept.dispose() };
  } catch (error) {
    if (error instanceof DataDirectoryError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new DataDirectoryError('unusable', `the data directory ${path} cannot be used: ${reason}`, { cause: error });
  }
}

function acquireLock(file: string): DatabaseSync | undefined {
  makePrivate(file);
  const lock = new DatabaseSync(file, { timeout: 0 });
  try {
    lock.exec('BEGIN EXCLUSIVE');
    return lock;
  } catch (error) {
    lock.close();
    if (error instanceof Error && 'errcode' in error && error.errcode === SQLITE_BUSY) return undefined;
    throw error;
  }
}

/**
 * Created here because SQLite would make it readable for everyone; its journal files get the mode of this one. An existing
 * file is not opened: closing it would drop a lock that this process may have on it.
 */
function makePrivate(file: string): void {
  try {
    closeSync(openSync(file, 'wx', 0o600));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    chmodSync(file, 0o600);
  }
}

function inUse(path: string, holder: string): DataDirectoryError {
  return new DataDirectoryError(
    'in-use',
    `the data directory ${path} is in use by another manager (process ${readHolder(holder)}): ` +
      'stop that one, or choose another directory',
  );
}

/** Only for the error message; the lock itself decides. */
function readHolder(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return 'unknown';
  }
}

/**
 * Why the manager cannot use a data directory. `in-use`: another manager has locked it. `unusable`: it cannot be created,
 * written or read. `damaged`: files of it are missing or damaged. `newer`: a later version of the program has written it. The key that encrypts secrets is `key-missing`,
 * `key-exposed` (other users can read it) or `key-wrong` (not a key, or not the key of this database). `other-cluster`: it is the
 * data of a cluster with another id.
 */
type DataDirectoryErrorCode =
  | 'in-use'
  | 'unusable'
  | 'damaged'
  | 'newer'
  | 'key-missing'
  | 'key-exposed'
  | 'key-wrong'
  | 'other-cluster';

export class DataDirectoryError extends OscarError<DataDirectoryErrorCode> {}
