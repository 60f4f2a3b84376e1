import assert from 'node:assert/strict';
import { chmodSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../../../test/support/temporary-directory.ts';
import { createSealingKey, readSealingKey } from './sealing-key.ts';

test('sealing key: a new key is 32 random bytes that only the owner can read', (t) => {
  const file = join(temporaryDirectory(t), 'secret.key');
  assert.equal(readSealingKey(file), undefined);
  const key = createSealingKey(file);
  assert.equal(key.length, 32);
  assert.deepEqual(readFileSync(file), key);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.deepEqual(readSealingKey(file), key);
  assert.notDeepEqual(createSealingKey(join(temporaryDirectory(t), 'secret.key')), key);
});

test('sealing key: an incomplete key file of a crash is not used', (t) => {
  const file = join(temporaryDirectory(t), 'secret.key');
  writeFileSync(`${file}.new`, 'half', { mode: 0o644 });
  const key = createSealingKey(file);
  assert.deepEqual(readSealingKey(file), key);
  assert.equal(existsSync(`${file}.new`), false);
});

for (const mode of [0o640, 0o604, 0o660, 0o644, 0o610]) {
  test(`sealing key: a key file with mode ${mode.toString(8)} is rejected`, (t) => {
    const file = join(temporaryDirectory(t), 'secret.key');
    createSealingKey(file);
    chmodSync(file, mode);
    assert.throws(() => readSealingKey(file), { code: 'key-exposed', message: /secret\.key.*chmod 600/ });
  });
}

for (const length of [0, 31, 33, 64]) {
  test(`sealing key: a key of ${length} bytes is rejected`, (t) => {
    const file = join(temporaryDirectory(t), 'secret.key');
    writeFileSync(file, Buffer.alloc(length), { mode: 0o600 });
    assert.throws(() => readSealingKey(file), { code: 'key-wrong', message: new RegExp(`has ${length} bytes`) });
  });
}
