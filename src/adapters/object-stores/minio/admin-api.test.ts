import assert from 'node:assert/strict';
import { createCipheriv, createDecipheriv, pbkdf2Sync } from 'node:crypto';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Secret } from '../../../lib/secret.ts';
import { encryptAdminBody } from './admin-api.ts';

const TAG = 16;
const SEALED_FRAGMENT = 16_384 + TAG;

/** Decrypts a body as the server does, which recognizes the last fragment only by the end of the body. */
function decrypt(secret: string, bytes: Buffer): string {
  assert.equal(bytes[32], 2);
  const key = pbkdf2Sync(secret, bytes.subarray(0, 32), 8192, 32, 'sha256');
  const nonceFor = (number: number) => {
    const place = Buffer.alloc(4);
    place.writeUInt32LE(number);
    return Buffer.concat([bytes.subarray(33, 41), place]);
  };
  // The authentication tag of an empty fragment, which all other fragments authenticate too.
  const nothing = createCipheriv('aes-256-gcm', key, nonceFor(0));
  nothing.final();
  const beginning = nothing.getAuthTag();
  const parts: Buffer[] = [];
  for (let at = 41, number = 1; at < bytes.length; at += SEALED_FRAGMENT, number++) {
    const fragment = bytes.subarray(at, at + SEALED_FRAGMENT);
    const last = at + SEALED_FRAGMENT >= bytes.length;
    const decipher = createDecipheriv('aes-256-gcm', key, nonceFor(number));
    decipher.setAAD(Buffer.concat([Buffer.of(last ? 0x80 : 0), beginning]));
    decipher.setAuthTag(fragment.subarray(-TAG));
    parts.push(decipher.update(fragment.subarray(0, -TAG)), decipher.final());
  }
  return Buffer.concat(parts).toString();
}

for (const length of [0, 1, 16_383, 16_384, 16_385, 50_000]) {
  test(`admin API: the server decrypts a body of ${length} characters`, async () => {
    const text = 'x'.repeat(length);
    assert.equal(decrypt('secret', await encryptAdminBody(new Secret('secret'), text)), text);
  });
}

test('admin API: only the secret key of the caller decrypts a body', async () => {
  await fc.assert(
    fc.asyncProperty(fc.string({ unit: 'binary' }), fc.string({ minLength: 1 }), async (text, secret) => {
      const whole = Buffer.from(text).toString();
      const bytes = await encryptAdminBody(new Secret(secret), whole);
      assert.equal(decrypt(secret, bytes), whole);
      assert.throws(() => decrypt(`${secret}.`, bytes));
    }),
    { numRuns: 20 },
  );
});
