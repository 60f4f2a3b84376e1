import { chmodSync, closeSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { OscarError } from '../../lib/oscar-error.ts';

/** SQLite's code for "someone else has the lock". */
const SQLITE_BUSY = 5;

/** A directory that belongs to this process until it is released, or the process ends in whatever way. */
export interface DataDirectory {
  file(name: string): string;
  release(): void;
}

/**
 * Makes the directory if need be, and takes it. The lock is a transaction on a file of its own: the kernel frees it on
 * kill -9, and unlike a file with a pid in it, it can never be stale. Nothing else in this process may open that file:
 * closing any handle of a file drops all of a process's locks on it (POSIX).
 */
export function holdDataDirectory(directory: string): DataDirectory {
  const path = resolve(directory);
  const file = (name: string) => join(path, name);
  const holder = file('manager.pid');
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
    using taken = new DisposableStack();
    const lock = takeLock(file('manager.lock'));
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

function takeLock(file: string): DatabaseSync | undefined {
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
 * Made here because SQLite would let everybody read it; the files beside it get the mode of this one. One that is there is
 * not opened: closing it again would end the lock that this very process may have on it.
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
    `the data directory ${path} is in use by another manager (process ${holderOf(holder)}): ` +
      'stop that one, or choose another directory',
  );
}

/** For the message alone: the lock decides, this only says whom to ask. */
function holderOf(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return 'unknown';
  }
}

/**
 * Why the manager does not start on a data directory. `in-use`: another manager has it. `unusable`: it cannot be made,
 * written or read. `newer`: a later version of the program made it. The key that seals secrets is `key-missing`,
 * `key-exposed` to others on this machine, or `key-wrong`: not a key, or not the one this database was sealed with.
 */
type DataDirectoryErrorCode = 'in-use' | 'unusable' | 'newer' | 'key-missing' | 'key-exposed' | 'key-wrong';

export class DataDirectoryError extends OscarError<DataDirectoryErrorCode> {}
