import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { ownerNameLabel } from './owner-name-label.ts';

const cases = [
  { name: 'a plain name stays', given: 'Alice', label: 'Alice' },
  { name: 'accents go and spaces become underscores', given: 'José Ñandú Müller', label: 'Jose_Nandu_Muller' },
  {
    name: 'letters with a stroke or a ligature become plain',
    given: 'Łukasz Sørensen Weiß',
    label: 'Lukasz_Sorensen_Weiss',
  },
  { name: 'wide letters become plain', given: 'Ａｌｉｃｅ', label: 'Alice' },
  { name: 'characters that a label may not have are removed', given: "Conan O'Brien (UPV)", label: 'Conan_OBrien_UPV' },
  { name: 'dots and hyphens stay, but not at the ends', given: '-J.-P. Serre.', label: 'J.-P._Serre' },
  { name: 'a long name is cut', given: 'a'.repeat(100), label: 'a'.repeat(63) },
  { name: 'the cut does not end in an underscore', given: `${'a'.repeat(62)} b`, label: 'a'.repeat(62) },
  { name: 'a name without Latin letters becomes unnamed', given: 'Алиса', label: 'unnamed' },
  { name: 'a blank name becomes unnamed', given: ' ', label: 'unnamed' },
];

for (const { name, given, label } of cases) {
  test(`owner name label: ${name}`, () => assert.equal(ownerNameLabel(given), label));
}

test('owner name label: any name gives a legal label', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (name) => {
      assert.match(ownerNameLabel(name), /^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/);
    }),
  );
});
