import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { HandClock } from './clock.fixture.ts';
import { TimerQueue } from './clock.ts';

test('timer queue: entries are called in order at their last time, and dropped ones never', () => {
  const steps = fc.array(
    fc.record({
      name: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'),
      after: fc.integer({ min: 0, max: 50 }),
      drop: fc.boolean(),
      pass: fc.integer({ min: 0, max: 20 }),
    }),
    { maxLength: 60 },
  );
  fc.assert(
    fc.property(steps, (todo) => {
      const clock = new HandClock(0);
      const expected = new Map<string, number>();
      let last = 0;
      const agenda = new TimerQueue<number>(clock, (at, name) => {
        assert.equal(at, expected.get(name));
        assert.ok(at <= clock.now() && at >= last);
        last = at;
        expected.delete(name);
      });
      for (const { name, after, drop, pass } of todo) {
        const at = clock.now() + after;
        if (drop) {
          agenda.drop(name);
          expected.delete(name);
        } else {
          agenda.add(name, at, at);
          expected.set(name, at);
        }
        clock.pass(pass);
        assert.ok([...expected.values()].every((time) => time > clock.now()));
      }
      assert.equal(agenda.size, expected.size);
      clock.pass(100);
      assert.equal(expected.size, 0);
    }),
  );
});

test('timer queue: uses one timer for all entries, and none after it is closed', () => {
  const clock = new HandClock(0);
  const calls: string[] = [];
  const agenda = new TimerQueue<string>(clock, (item) => calls.push(item));
  agenda.add('late', 20, 'late');
  agenda.add('early', 10, 'early');
  clock.pass(10);
  agenda.close();
  agenda.add('after', 11, 'after');
  clock.pass(100);
  assert.deepEqual(calls, ['early']);
});
