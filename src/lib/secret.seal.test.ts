import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { assert as check, property, string } from 'fast-check';
import { Seal } from './secret.ts';

const seal = new Seal(randomBytes(32));
const PLACE = ['secret', 'grant', 'g1'] as const;

test('whatever is sealed opens again in its place', () => {
  check(
    property(string({ unit: 'binary' }), string(), (value, key) => {
      const place = ['secret', 'user', key] as const;
      assert.equal(seal.open(seal.seal(value, place), place), value);
    }),
  );
});

test('the same value is never sealed alike twice', () => {
  assert.notDeepEqual(seal.seal('s3cret', PLACE), seal.seal('s3cret', PLACE));
});

test('a value does not open in another place, or with another key', () => {
  const sealed = seal.seal('s3cret', PLACE);
  const elsewhere = [
    ['secret', 'grant', 'g2'],
    ['secret', 'user', 'g1'],
    ['secret', 'grant g1'],
    ['secret', 'grant', 'g1', ''],
  ] as const;
  for (const place of elsewhere) assert.throws(() => seal.open(sealed, place), { code: 'damaged' });
  assert.throws(() => new Seal(randomBytes(32)).open(sealed, PLACE), { code: 'damaged' });
});

test('a value with any bit changed, cut or extended does not open', () => {
  const sealed = seal.seal('s3cret', PLACE);
  for (let bit = 0; bit < sealed.length * 8; bit++) {
    const changed = Buffer.from(sealed);
    changed.writeUInt8(changed.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
    assert.throws(() => seal.open(changed, PLACE), { code: 'damaged' });
  }
  for (let length = 0; length < sealed.length; length++) {
    assert.throws(() => seal.open(sealed.subarray(0, length), PLACE), { code: 'damaged' });
  }
  assert.throws(() => seal.open(Buffer.concat([sealed, Buffer.of(0)]), PLACE), { code: 'damaged' });
});

test('an error says which value, and nothing of it', () => {
  const sealed = seal.seal('s3cret', PLACE);
  sealed.writeUInt8(0xff, sealed.length - 1);
  assert.throws(
    () => seal.open(sealed, PLACE),
    (error: Error) => {
      assert.match(error.message, /secret grant g1 cannot be opened/);
      assert.doesNotMatch(inspect(error), /s3c/);
      return true;
    },
  );
});
