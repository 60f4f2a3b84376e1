import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Breaker } from './peer-connection.ts';

/** One that did not answer three times in a row, at 0. */
function open(): Breaker {
  const breaker = new Breaker();
  for (let i = 0; i < 3; i++) breaker.silent(0);
  return breaker;
}

test('two silences are none, and an answer between starts the count again', () => {
  const breaker = new Breaker();
  breaker.silent(0);
  breaker.silent(0);
  assert.equal(breaker.mayAsk(0), true);
  breaker.answered();
  breaker.silent(0);
  breaker.silent(0);
  assert.equal(breaker.mayAsk(0), true);
});

test('a sign of life lets one try before the pause is over, and no more', () => {
  const breaker = open();
  breaker.hope();
  assert.deepEqual(
    [1, 1].map((now) => breaker.mayAsk(now)),
    [true, false],
  );
  breaker.silent(1);
  assert.equal(breaker.mayAsk(2), false);
});

test('after three there is a pause, and then one may try', () => {
  const breaker = open();
  assert.deepEqual(
    [0, 4_999].map((now) => breaker.mayAsk(now)),
    [false, false],
  );
  assert.deepEqual(
    [5_000, 5_000, 9_000].map((now) => breaker.mayAsk(now)),
    [true, false, false],
  );
});

test('when that one was answered, all may ask', () => {
  const breaker = open();
  breaker.mayAsk(5_000);
  breaker.answered();
  assert.deepEqual(
    [5_001, 5_001].map((now) => breaker.mayAsk(now)),
    [true, true],
  );
});

test('each pause is twice as long, up to 15 s, and short again after an answer', () => {
  const breaker = open();
  const pauses = [5_000, 10_000, 15_000, 15_000];
  let now = 0;
  for (const pause of pauses) {
    assert.equal(breaker.mayAsk(now + pause - 1), false, `a pause shorter than ${pause}`);
    now += pause;
    assert.equal(breaker.mayAsk(now), true, `a pause longer than ${pause}`);
    breaker.silent(now);
  }
  breaker.answered();
  for (let i = 0; i < 3; i++) breaker.silent(now + 60_000);
  assert.equal(breaker.mayAsk(now + 65_000), true);
});

test('requests that were under way together are one reason to pause', () => {
  const breaker = open();
  for (let i = 0; i < 20; i++) breaker.silent(i);
  assert.equal(breaker.mayAsk(5_000), true);
});

test('an answer to somebody who asked all the same ends the pause', () => {
  const breaker = open();
  breaker.answered();
  assert.equal(breaker.mayAsk(1), true);
});
