import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { bytes, formatQuantity, millicores } from './quantity.ts';

const cpus: [string, number | undefined][] = [
  ['1', 1000],
  ['0.5', 500],
  ['.5', 500],
  ['5.', 5000],
  ['500m', 500],
  ['+2', 2000],
  ['0', 0],
  ['-1', -1000],
  ['1e3', 1_000_000],
  ['1E3', 1_000_000],
  ['1e-3', 1],
  ['100u', 1],
  ['1n', 1],
  ['0.1', 100],
  ['0.0001', 1],
  ['1.0001', 1001],
  ['2k', 2_000_000],
  ['1Ki', 1_024_000],
  ['', undefined],
  ['.', undefined],
  ['m', undefined],
  ['1 ', undefined],
  [' 1', undefined],
  ['1,5', undefined],
  ['1.2.3', undefined],
  ['0x10', undefined],
  ['1mm', undefined],
  ['1K', undefined],
  ['1ki', undefined],
  ['1e', undefined],
  ['1e9999', undefined],
  ['abc', undefined],
  ['NaN', undefined],
  ['Infinity', undefined],
  ['１', undefined],
  ['9'.repeat(65), undefined],
  ['9'.repeat(30), undefined],
];
for (const [text, expected] of cpus) {
  test(`quantity: cpu ${JSON.stringify(text.slice(0, 40))} is ${expected} millicores`, () => {
    assert.equal(millicores(text), expected);
  });
}

const memories: [string, number | undefined][] = [
  ['256Mi', 268_435_456],
  ['1.5Gi', 1_610_612_736],
  ['0.5Gi', 536_870_912],
  ['128974848', 128_974_848],
  ['129e6', 129_000_000],
  ['129M', 129_000_000],
  ['128974848000m', 128_974_848],
  ['1m', 1],
  ['1E', undefined],
  ['8Pi', undefined],
  ['7Pi', 7_881_299_347_898_368],
];
for (const [text, expected] of memories) {
  test(`quantity: memory ${text} is ${expected} bytes`, () => assert.equal(bytes(text), expected));
}

test('quantity: a whole number of any unit is converted exactly', () => {
  const units: [string, bigint][] = [
    ['', 1n],
    ['k', 1000n],
    ['Ki', 1024n],
    ['M', 1_000_000n],
    ['Mi', 1n << 20n],
    ['Gi', 1n << 30n],
  ];
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 8_000_000 }), fc.constantFrom(...units), (count, [unit, size]) => {
      assert.equal(bytes(`${count}${unit}`), Number(BigInt(count) * size));
    }),
  );
});

test('quantity: a number of bytes is written in the largest unit that divides it, and read back unchanged', () => {
  assert.equal(formatQuantity(0), '0');
  assert.equal(formatQuantity(5), '5');
  assert.equal(formatQuantity(52_428_800), '50Mi');
  assert.equal(formatQuantity(1_610_612_736), '1536Mi');
  fc.assert(fc.property(fc.maxSafeNat(), (amount) => assert.equal(bytes(formatQuantity(amount)), amount)));
});

test('quantity: any text is a number or undefined, and never throws', () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      const value = millicores(text);
      assert.ok(value === undefined || Number.isSafeInteger(value));
    }),
  );
});
