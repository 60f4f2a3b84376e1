import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseJson } from './json.ts';

const parse = (text: string) => parseJson(Buffer.from(text));

test('JSON is parsed, and the last of two equal keys wins', () => {
  assert.deepEqual(parse(' {"a":[1,"x"],"a":2}\n'), { a: 2 });
});

test('brackets inside strings are no nesting', () => {
  const text = '[{"\\"'.repeat(100);
  assert.equal(parse(JSON.stringify(text)), text);
});

const refused: [string, string | Uint8Array, RegExp][] = [
  ['nothing', '', /is empty/],
  ['blanks', ' \n', /is empty/],
  ['something else', '{bad', /is not JSON/],
  ['bytes that are no text', new Uint8Array([0x22, 0xff, 0x22]), /is not UTF-8/],
  ['nesting that is too deep', `${'['.repeat(65)}${']'.repeat(65)}`, /nested more than 64/],
  ['a million open brackets', '['.repeat(1_000_000), /nested more than 64/],
];
for (const [name, body, message] of refused) {
  test(`${name} is refused`, () => {
    const bytes = typeof body === 'string' ? Buffer.from(body) : body;
    assert.throws(() => parseJson(bytes), { code: 'not-json', message });
  });
}
