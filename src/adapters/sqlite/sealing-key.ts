import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, statSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { Seal } from '../../lib/secret.ts';
import { syncDirectory } from '../../lib/sync-directory.ts';
import { type DataDirectory, DataDirectoryError } from './data-directory.ts';
import type { Database } from './database.ts';

const PLACE = ['proof'] as const;

/**
 * Opens the seal of this data directory. The key is created at the first start. The database stores a proof of the key, so
 * that a lost or wrong key is detected at the start, and not when the first secret cannot be decrypted.
 */
export function openSeal(directory: DataDirectory, database: Database): Seal {
  const file = directory.file('secret.key');
  const proof = database.query<{ proof: Uint8Array }>('SELECT proof FROM sealing').get()?.proof;
  const found = readSealingKey(file);
  if (proof && !found) {
    throw new DataDirectoryError(
      'key-missing',
      `the key ${file} is missing, and the secrets in the database cannot be opened without it: restore it from a ` +
        'backup, or start with an empty data directory',
    );
  }
  const seal = new Seal(found ?? createSealingKey(file));
  if (proof) verify(seal, proof, file);
  else database.query('INSERT INTO sealing (id, proof) VALUES (1, ?)').run(seal.seal('', PLACE));
  return seal;
}

function verify(seal: Seal, proof: Uint8Array, file: string): void {
  try {
    seal.open(proof, PLACE);
  } catch (cause) {
    const message = `${file} is not the key that the secrets in the database were sealed with: restore it from a backup`;
    throw new DataDirectoryError('key-wrong', message, { cause });
  }
}

const KEY_BYTES = 32;

/** Permissions of other users: with the key they could read every secret. */
const OTHERS = 0o077;

/** Undefined if the file does not exist. */
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

/** Creates the key file atomically, and syncs it to the disk. */
export function createSealingKey(file: string): Buffer {
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
