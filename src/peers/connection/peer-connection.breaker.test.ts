import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CircuitBreaker } from './peer-connection.ts';

/** One that did not answer three times in a row, at 0. */
function open(): CircuitBreaker {
  const breaker = new CircuitBreaker();
  for (let i = 0; i < 3; i++) breaker.recordFailure(0);
  return breaker;
}

test('two silences are none, and an answer between starts the count again', () => {
  const breaker = new CircuitBreaker();
  breaker.recordFailure(0);
  breaker.recordFailure(0);
  assert.equal(breaker.allowRequest(0), true);
  breaker.recordSuccess();
  breaker.recordFailure(0);
  breaker.recordFailure(0);
  assert.equal(breaker.allowRequest(0), true);
});

test('a sign of life lets one try before the pause is over, and no more', () => {
  const breaker = open();
  breaker.allowTrial();
  assert.deepEqual(
    [1, 1].map((now) => breaker.allowRequest(now)),
    [true, false],
  );
  breaker.recordFailure(1);
  assert.equal(breaker.allowRequest(2), false);
});

test('after three there is a pause, and then one may try', () => {
  const breaker = open();
  assert.deepEqual(
    [0, 4_999].map((now) => breaker.allowRequest(now)),
    [false, false],
  );
  assert.deepEqual(
    [5_000, 5_000, 9_000].map((now) => breaker.allowRequest(now)),
    [true, false, false],
  );
});

test('when that one was answered, all may ask', () => {
  const breaker = open();
  breaker.allowRequest(5_000);
  breaker.recordSuccess();
  assert.deepEqual(
    [5_001, 5_001].map((now) => breaker.allowRequest(now)),
    [true, true],
  );
});

test('each pause is twice as long, up to 15 s, and short again after an answer', () => {
  const breaker = open();
  const pauses = [5_000, 10_000, 15_000, 15_000];
  let now = 0;
  for (const pause of pauses) {
    assert.equal(breaker.allowRequest(now + pause - 1), false, `a pause shorter than ${pause}`);
    now += pause;
    assert.equal(breaker.allowRequest(now), true, `a pause longer than ${pause}`);
    breaker.recordFailure(now);
  }
  breaker.recordSuccess();
  for (let i = 0; i < 3; i++) breaker.recordFailure(now + 60_000);
  assert.equal(breaker.allowRequest(now + 65_000), true);
});

test('requests that were under way together are one reason to pause', () => {
  const breaker = open();
  for (let i = 0; i < 20; i++) breaker.recordFailure(i);
  assert.equal(breaker.allowRequest(5_000), true);
});

test('breaker: an answer to a request that was sent all the same ends the pause', () => {
  const breaker = open();
  breaker.recordSuccess();
  assert.equal(breaker.allowRequest(1), true);
});
