import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VerificationCache, type VerificationResult } from './token-verifier.ts';

const verdict = (uid: string): VerificationResult => ({
  user: { kind: 'user', uid, name: uid, groups: [], operator: false },
});

test('verification cache: an entry is returned before its expiry, and not at it', () => {
  const tokens = new VerificationCache(10);
  tokens.keep('a', verdict('alice'), 1_000);
  assert.deepEqual(tokens.find('a', 999), verdict('alice'));
  assert.equal(tokens.find('a', 1_000), undefined);
  assert.equal(tokens.find('a', 999), undefined, 'and it has been removed');
});

test('verification cache: a newer entry replaces the older one', () => {
  const tokens = new VerificationCache(10);
  tokens.keep('a', verdict('alice'), 1_000);
  tokens.keep('a', verdict('bob'), 2_000);
  assert.deepEqual(tokens.find('a', 1_500), verdict('bob'));
});

test('verification cache: the least recently used entry is evicted', () => {
  const tokens = new VerificationCache(2);
  tokens.keep('a', verdict('alice'), 1_000);
  tokens.keep('b', verdict('bob'), 1_000);
  tokens.find('a', 0);
  tokens.keep('c', verdict('carol'), 1_000);
  assert.deepEqual(
    ['a', 'b', 'c'].map((hash) => tokens.find(hash, 0) !== undefined),
    [true, false, true],
  );
});
