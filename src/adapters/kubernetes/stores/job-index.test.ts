import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { HIGHEST, type IndexPosition, LOWEST, Ordered } from './job-index.ts';

const position = fc.record({ at: fc.integer({ min: 0, max: 4 }), text: fc.constantFrom('a', 'b', 'B') });
const step = fc.record({ add: fc.boolean(), position });
const order = (a: IndexPosition, b: IndexPosition) => a.at - b.at || (a.text < b.text ? -1 : Number(a.text > b.text));

test('job index: after any additions and deletions the items are in order, from every position in both directions', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), position, fc.integer({ min: 0, max: 5 }), (steps, from, limit) => {
      const ordered = new Ordered<IndexPosition>((item) => item);
      const model = new Map<string, IndexPosition>();
      for (const { add, position: item } of steps) {
        const key = `${item.at} ${item.text}`;
        if (add) ordered.add(item);
        else ordered.delete(item);
        if (add) model.set(key, item);
        else model.delete(key);
      }
      const all = [...model.values()].toSorted(order);
      const above = all.filter((item) => order(item, from) > 0);
      const below = all.filter((item) => order(item, from) < 0).toReversed();
      assert.deepEqual(ordered.above(LOWEST, 100), all);
      assert.deepEqual(ordered.below(HIGHEST, 100), all.toReversed());
      assert.deepEqual(ordered.above(from, limit), above.slice(0, limit));
      assert.deepEqual(ordered.below(from, limit), below.slice(0, limit));
      assert.deepEqual([ordered.first(), ordered.size], [all[0], all.length]);
    }),
  );
});

test('job index: adding many at once gives the same result as one by one, and the later of two at one position wins', () => {
  fc.assert(
    fc.property(
      fc.array(position, { maxLength: 10 }),
      fc.array(fc.record({ at: fc.integer({ min: 0, max: 30 }), text: fc.string() }), { maxLength: 40 }),
      (there, more) => {
        const [together, singly] = [1, 2].map(() => new Ordered<IndexPosition & { n: number }>((item) => item));
        assert.ok(together && singly);
        for (const [n, item] of there.entries()) for (const each of [together, singly]) each.add({ ...item, n });
        const numbered = more.map((item, n) => ({ ...item, n: 100 + n }));
        together.addAll(numbered);
        for (const item of numbered) singly.add(item);
        assert.deepEqual(together.above(LOWEST, 100), singly.above(LOWEST, 100));
      },
    ),
  );
});
