import type { DataDirectory } from './data-directory.ts';
import type { Database } from './database.ts';
import { DataDirectoryError } from './errors.ts';
import { Seal } from './seal.ts';
import { makeSealingKey, readSealingKey } from './sealing-key.ts';

const PLACE = ['proof'] as const;

/**
 * The seal of this data directory. Its key is made at the first start; from then on the database holds a proof of it,
 * so that a key that was lost or swapped is noticed now and not at the first secret that does not open.
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
  const seal = new Seal(found ?? makeSealingKey(file));
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
