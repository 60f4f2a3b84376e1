import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Nonces } from './nonces.ts';
import { SKEW } from './signature.ts';

test('a request comes once', () => {
  const nonces = new Nonces();
  assert.equal(nonces.isFirst('k', 'a', 0), true);
  assert.equal(nonces.isFirst('k', 'a', 1), false);
  assert.equal(nonces.isFirst('k', 'b', 1), true);
});

test('two members may have thought of the same nonce', () => {
  const nonces = new Nonces();
  assert.equal(nonces.isFirst('k', 'a', 0), true);
  assert.equal(nonces.isFirst('other', 'a', 0), true);
});

test('it is remembered as long as any clock could still call the request new', () => {
  const nonces = new Nonces();
  nonces.isFirst('k', 'a', 0);
  assert.equal(nonces.isFirst('k', 'a', 2 * SKEW - 1), false);
  assert.equal(nonces.isFirst('k', 'a', 2 * SKEW), true);
});

test('who sends too many is told no, others are not, and in time there is room again', () => {
  const nonces = new Nonces(2);
  assert.deepEqual(
    ['a', 'b', 'c', 'a'].map((nonce) => nonces.isFirst('k', nonce, 0)),
    [true, true, false, false],
  );
  assert.equal(nonces.isFirst('other', 'c', 0), true);
  assert.equal(nonces.isFirst('k', 'c', 2 * SKEW), true);
});
