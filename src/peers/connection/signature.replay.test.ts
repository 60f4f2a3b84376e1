import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { SeenRequest, SeenRequests } from '../../model/job/index.ts';
import { recordRequest } from './signature.ts';

const at = (time: number): SeenRequest => ({ time, nonce: `nonce-${time}` });

/** Which of them are believed, one after the other. */
function believed(askings: readonly SeenRequest[]): {
  readonly yes: SeenRequest[];
  readonly known: SeenRequests | undefined;
} {
  let known: SeenRequests | undefined;
  const yes = askings.filter((asking) => {
    const next = recordRequest(known, asking);
    known = next ?? known;
    return next !== undefined;
  });
  return { yes, known };
}

test('each is believed once, also when they overtake each other', () => {
  const askings = [1, 3, 2, 5, 4].map(at);
  assert.deepEqual(believed(askings).yes, askings);
  assert.deepEqual(believed([...askings, ...askings]).yes, askings);
});

test('two of one moment are two', () => {
  const askings = ['a', 'b'].map((nonce) => ({ time: 1, nonce }));
  assert.deepEqual(believed(askings).yes, askings);
});

test('replay: a request older than the remembered ones is rejected, even if its signature is valid', () => {
  const askings = Array.from({ length: 20 }, (_, index) => at(index));
  assert.deepEqual(believed([...askings, at(0), at(11), { time: 11, nonce: 'new' }]).yes, askings);
});

test('whatever comes in whatever order, nothing is believed twice, and little is kept', () => {
  const asking = fc.record({ time: fc.nat(30), nonce: fc.constantFrom('a', 'b', 'c') });
  const named = asking.map(({ time, nonce }) => ({ time, nonce: `${nonce}-${time}` }));
  fc.assert(
    fc.property(fc.array(named, { maxLength: 60 }), (askings) => {
      const { yes, known } = believed(askings);
      assert.equal(new Set(yes.map(({ nonce }) => nonce)).size, yes.length);
      assert.ok((known?.last.length ?? 0) <= 8);
    }),
  );
});

test('a member that asks at its pace is always heard', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 1000 }), { maxLength: 100 }), (pauses) => {
      let time = 0;
      const askings = pauses.map((pause) => at((time += pause)));
      assert.deepEqual(believed(askings).yes, askings);
    }),
  );
});
