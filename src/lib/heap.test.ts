import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Heap } from './heap.ts';

test('Heap: items come out in order, whatever was pushed and popped before', () => {
  fc.assert(
    fc.property(fc.array(fc.option(fc.nat(20), { nil: undefined })), (steps) => {
      const heap = new Heap<number>((a, b) => a < b);
      const expected: number[] = [];
      for (const step of steps) {
        if (step === undefined) assert.equal(heap.pop(), expected.shift());
        else {
          heap.push(step);
          expected.push(step);
          expected.sort((a, b) => a - b);
        }
        assert.equal(heap.first, expected[0]);
      }
    }),
  );
});
