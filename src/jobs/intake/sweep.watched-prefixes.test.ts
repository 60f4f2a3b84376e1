import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { afterPass, forgettableBefore, isDue, newWatch, SETTLING_MS, sweepSpan, type Watched } from './sweep.ts';

const HOUR = 60 * 60_000;
const T = 1_000 * HOUR;

const watched = (more: Partial<Watched> = {}): Watched => ({ ...newWatch('b', 'in/', T), ...more });
const object = (modifiedAt: number, more = {}) => ({ key: 'in/a', bytes: 1, eTag: 'e', modifiedAt, ...more });

describe('sweep: which objects a pass covers', () => {
  const begun = T + HOUR;
  const cases = [
    { name: 'an object as old as the subscription: no', at: T, due: false },
    { name: 'the first one after it: yes', at: T + 1, due: true },
    { name: 'one that is just old enough: yes', at: begun - SETTLING_MS, due: true },
    { name: 'one that may not have settled: no', at: begun - SETTLING_MS + 1, due: false },
    { name: 'one that the watermark stands on: no', at: T + 60, due: false, watermark: T + 60 },
    { name: 'one after the watermark: yes', at: T + 61, due: true, watermark: T + 60 },
    { name: 'one before the subscription, whatever the watermark says: no', at: T - 1, due: false, watermark: 0 },
    { name: 'a folder: no', at: T + 1, due: false, key: 'in/folder/', bytes: 0 },
    { name: 'a file that is called like a folder: yes', at: T + 1, due: true, key: 'in/folder/', bytes: 1 },
    { name: 'an empty file: yes', at: T + 1, due: true, bytes: 0 },
  ];
  for (const { name, at, due, watermark = T, ...more } of cases) {
    test(name, () => assert.equal(isDue(object(at, more), sweepSpan(watched({ watermark }), begun)), due));
  }
});

describe('sweep: the watermark moves', () => {
  const cases = [
    {
      name: 'to the beginning of the pass minus the settling time',
      found: 1,
      begun: T + HOUR / 2,
      to: T + HOUR / 2 - SETTLING_MS,
    },
    { name: 'not if nothing was found a moment later', found: 0, begun: T + SETTLING_MS + 60_000, to: undefined },
    {
      name: 'after a while, also if nothing was found',
      found: 0,
      begun: T + HOUR / 2,
      to: T + HOUR / 2 - SETTLING_MS,
    },
    { name: 'never back, also if the clock of the store is set back', found: 1, begun: T - HOUR, to: T },
  ];
  for (const { name, found, begun, to } of cases) {
    test(name, () => assert.equal(afterPass(watched(), begun, found)?.watermark, to));
  }
});

describe('sweep: which tombstones may be dropped', () => {
  test('none within an hour', () => {
    assert.equal(afterPass(watched(), T + HOUR - 1, 1)?.forgettable, 0);
  });

  test('after an hour, those that the watermark had passed at its beginning', () => {
    const first = afterPass(watched(), T + HOUR, 1);
    assert.deepEqual(first?.forgettable, T);
    const second = first && afterPass(first, T + 2 * HOUR + 1, 1);
    assert.deepEqual(second?.forgettable, T + HOUR - SETTLING_MS);
  });

  test('after days without a pass, none for another hour', () => {
    const late = T + 100 * HOUR;
    const moved = afterPass(watched(), late, 1);
    assert.deepEqual([moved?.watermark, moved?.forgettable], [late - SETTLING_MS, T]);
  });

  test('with several prefixes, only those that all watermarks have passed', () => {
    assert.equal(forgettableBefore([watched({ forgettable: 5 }), watched({ forgettable: 3 })]), 3);
  });
});

test('sweep: whenever passes happen, each object after the subscription is covered, none before it, and no tombstone is dropped early', () => {
  const minutes = fc.integer({ min: -120, max: 600 });
  fc.assert(
    fc.property(
      fc.array(minutes, { maxLength: 30 }),
      fc.array(fc.integer({ min: 1, max: 90 }), { minLength: 1, maxLength: 40 }),
      (written, gaps) => {
        const objects = written.map((minute) => object(T + minute * 60_000));
        const seen = new Set<number>();
        let state = watched();
        let now = T;
        const passed: { watermark: number; at: number }[] = [];
        for (const gap of gaps) {
          now += gap * 60_000;
          const span = sweepSpan(state, now);
          const due = objects.filter((each) => each.modifiedAt <= now && isDue(each, span));
          for (const { modifiedAt } of due) seen.add(modifiedAt);
          const next = afterPass(state, now, due.length) ?? state;
          if (next.watermark > state.watermark) passed.push({ watermark: next.watermark, at: now });
          if (next.forgettable > T) {
            const since = passed.find(({ watermark }) => watermark >= next.forgettable)?.at ?? now;
            assert.ok(now - since >= HOUR, 'an hour after the watermark has passed it');
          }
          assert.ok(next.watermark >= state.watermark && next.forgettable <= next.watermark);
          state = next;
        }
        for (const { modifiedAt } of objects) {
          const settled = modifiedAt > T && modifiedAt <= now - SETTLING_MS;
          assert.equal(seen.has(modifiedAt), settled, `written ${(modifiedAt - T) / 60_000} minutes after`);
        }
      },
    ),
  );
});
