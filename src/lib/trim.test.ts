import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { isBlank, isSlash, trimEnd, trimEnds } from './trim.ts';

test('trim: gives what the pattern gives that it stands for', () => {
  const texts = fc.string({ unit: fc.constantFrom('/', ' ', '\u00a0', '\n', 'a', '-') });
  fc.assert(
    fc.property(texts, (text) => {
      assert.equal(trimEnd(text, isSlash), text.replace(/\/+$/, ''));
      assert.equal(
        trimEnds(text, (each) => isSlash(each) || isBlank(each)),
        text.replace(/^[\s/]+|[\s/]+$/g, ''),
      );
    }),
  );
});

test('trim: looks at the ends of a text and not at its middle', () => {
  for (const length of [1_000, 2_000]) {
    let looked = 0;
    const counted = (character: string) => {
      looked++;
      return isSlash(character);
    };
    assert.equal(trimEnds(`//a${'/'.repeat(length)}b/`, counted).length, length + 2);
    assert.equal(looked, 5, `${length}: three slashes at the ends and the two characters that they end at`);
  }
});
