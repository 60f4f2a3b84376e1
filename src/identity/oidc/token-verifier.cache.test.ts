import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VerificationCache, type VerificationResult } from './token-verifier.ts';

const verdict = (uid: string): VerificationResult => ({
  user: { kind: 'user', uid, name: uid, groups: [], operator: false },
});

test('a verdict is told until its time, and not at it', () => {
  const tokens = new VerificationCache(10);
  tokens.keep('a', verdict('alice'), 1_000);
  assert.deepEqual(tokens.find('a', 999), verdict('alice'));
  assert.equal(tokens.find('a', 1_000), undefined);
  assert.equal(tokens.find('a', 999), undefined, 'and it is gone for good');
});

test('a newer verdict replaces the older', () => {
  const tokens = new VerificationCache(10);
  tokens.keep('a', verdict('alice'), 1_000);
  tokens.keep('a', verdict('bob'), 2_000);
  assert.deepEqual(tokens.find('a', 1_500), verdict('bob'));
});

test('when there are too many, the one that was not asked for longest goes', () => {
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
