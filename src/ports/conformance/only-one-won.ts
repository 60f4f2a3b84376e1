import assert from 'node:assert/strict';

/** Checks that one of several attempts succeeded and all others failed with that code; returns the result of the successful one. */
export function onlyOneWon<T>(attempts: PromiseSettledResult<T>[], code: string): T {
  const lost = attempts.filter((attempt) => attempt.status === 'rejected');
  assert.deepEqual(new Set(lost.map(({ reason }) => reason.code)), new Set([code]));
  const [won, ...more] = attempts.filter((attempt) => attempt.status === 'fulfilled');
  assert.ok(won, 'all attempts failed');
  assert.equal(more.length, 0, 'more than one attempt succeeded');
  return won.value;
}
