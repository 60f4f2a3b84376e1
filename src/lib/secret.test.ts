import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { Secret } from './secret.ts';

const secret = new Secret('s3cret');

test('secret: no way of printing it shows the value', () => {
  const printed = [
    String(secret),
    JSON.stringify({ secret, list: [secret] }),
    inspect({ secret }, { depth: 5, showHidden: true }),
    [secret].join(),
    Object.values(secret).join(),
  ];
  for (const text of printed) assert.ok(!text.includes('s3cret'), text);
});

test('secret: reveal returns the value', () => {
  assert.equal(secret.reveal(), 's3cret');
});

test('secret: two secrets are compared by value, whatever their lengths', () => {
  assert.equal(secret.equals('s3cret'), true);
  assert.equal(secret.equals(new Secret('s3cret')), true);
  assert.equal(secret.equals('s3creT'), false);
  assert.equal(secret.equals('s3'), false);
  assert.equal(secret.equals(''), false);
});
