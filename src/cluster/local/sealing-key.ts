import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, statSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { syncDirectory } from '../../base/sync-directory.ts';
import { DataDirectoryError } from './errors.ts';

const KEY_BYTES = 32;

/** Whoever else may read the key may read every secret. */
const OTHERS = 0o077;

/** The key in this file, or undefined when there is no such file. */
export function readSealingKey(file: string): Buffer | undefined {
  const stat = statSync(file, { throwIfNoEntry: false });
  if (!stat) return undefined;
  if ((stat.mode & OTHERS) !== 0) {
    throw new DataDirectoryError(
      'key-exposed',
      `others on this machine can read ${file}, which opens every secret: make it yours alone (chmod 600), ` +
        'and change the secrets if you do not trust them',
    );
  }
  const key = readFileSync(file);
  if (key.length !== KEY_BYTES) {
    throw new DataDirectoryError(
      'key-wrong',
      `${file} has ${key.length} bytes instead of ${KEY_BYTES}, so it is not the key that opens the secrets: ` +
        'restore it from a backup',
    );
  }
  return key;
}

/** Makes the key. It appears whole and on the disk, or not at all. */
export function makeSealingKey(file: string): Buffer {
  const key = randomBytes(KEY_BYTES);
  const unfinished = `${file}.new`;
  rmSync(unfinished, { force: true });
  const handle = openSync(unfinished, 'wx', 0o600);
  writeSync(handle, key);
  fsyncSync(handle);
  closeSync(handle);
  renameSync(unfinished, file);
  syncDirectory(dirname(file));
  return key;
}
