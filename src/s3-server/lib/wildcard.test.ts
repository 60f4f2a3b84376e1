import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { compileWildcard } from './wildcard.ts';

const matchesWildcard = (pattern: string, text: string) => compileWildcard(pattern)(text);

const cases: [string, string, boolean][] = [
  ['', '', true],
  ['', 'a', false],
  ['*', '', true],
  ['*', 'anything/at all', true],
  ['a*', 'abc', true],
  ['a*', 'ba', false],
  ['*a', 'bba', true],
  ['a*c*e', 'abcde', true],
  ['a*c*e', 'abcd', false],
  ['a?c', 'abc', true],
  ['a?c', 'ac', false],
  ['in/${*}', 'in/*', true],
  ['in/${*}', 'in/x', false],
  ['in/${?}', 'in/?', true],
  ['in/${?}', 'in/x', false],
  ['${$}{*}', '${x}', true],
  ['${$}{${*}}', '${*}', true],
  ['${$}{${*}}', '${x}', false],
  ['${x}', '${x}', true],
];
for (const [pattern, text, expected] of cases) {
  test(`wildcard: ${JSON.stringify(pattern)} ${expected ? 'matches' : 'does not match'} ${JSON.stringify(text)}`, () => {
    assert.equal(matchesWildcard(pattern, text), expected);
  });
}

test('wildcard: a pattern with escaped special characters matches only its own text', () => {
  const literal = (text: string) => text.replace(/[*?$]/g, (character) => `\${${character}}`);
  const texts = fc.string({ unit: fc.constantFrom('a', 'b', '*', '?', '$', '{', '}'), maxLength: 8 });
  fc.assert(
    fc.property(texts, texts, (one, other) => {
      assert.equal(matchesWildcard(literal(one), one), true);
      assert.equal(matchesWildcard(literal(one), other), one === other);
    }),
  );
});

test('wildcard: a pattern matches the same texts as its regular expression, also across words of 32 tokens', () => {
  const toRegExp = (pattern: string) => new RegExp(`^${pattern.replaceAll('?', '[^]').replaceAll(/\*+/g, '[^]*')}$`);
  const patterns = fc.string({ unit: fc.constantFrom('a', 'b', '*', '?', 'aaaaaaaaaaaaaaaa'), maxLength: 12 });
  const texts = fc.string({ unit: fc.constantFrom('a', 'b', 'aaaaaaaaaaaaaaaa'), maxLength: 12 });
  fc.assert(
    fc.property(patterns, texts, (pattern, text) => {
      assert.equal(matchesWildcard(pattern, text), toRegExp(pattern).test(text));
    }),
    { numRuns: 2_000 },
  );
});
