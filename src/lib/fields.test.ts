import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fields, flagField, nested, oneOfField, optional, urlField, wholeNumberField } from './fields.ts';

interface Cow {
  readonly legs: number;
  readonly colour: 'black' | 'white';
  readonly calf?: { readonly isWild: boolean };
}

const readCow = fields<Cow>({
  legs: wholeNumberField,
  colour: oneOfField('black', 'white'),
  calf: optional(nested('a calf', fields({ isWild: flagField }))),
});

test('what is what it has to be is read, and nothing else is', () => {
  assert.deepEqual(readCow({ legs: 4, colour: 'black', name: 'Elsie' }), { value: { legs: 4, colour: 'black' } });
  const withCalf = { legs: 4, colour: 'white', calf: { isWild: false } };
  assert.deepEqual(readCow(withCalf), { value: withCalf });
});

test('every problem is told', () => {
  const problems = ['legs is not a whole number', 'colour is not one of black, white', 'calf is not a calf'];
  assert.deepEqual(readCow({ legs: -1, colour: 'constructor', calf: { isWild: 1 } }), { problems });
  assert.deepEqual(readCow({ legs: 4, colour: 'black', calf: undefined }), { problems: ['calf is not a calf'] });
  assert.deepEqual(readCow([]), { problems: ['is not an object'] });
});

test('what an object inherits is not in it', () => {
  assert.deepEqual(readCow(Object.create({ legs: 4, colour: 'black' })), {
    problems: ['legs is not a whole number', 'colour is not one of black, white'],
  });
  assert.deepEqual(readCow(Object.assign(Object.create({ calf: 'junk' }), { legs: 4, colour: 'black' })), {
    value: { legs: 4, colour: 'black' },
  });
});

for (const wrong of ['ftp://a.example', 'https://u:p@a.example', 'a.example', `https://${'a'.repeat(2048)}`, 7]) {
  test(`${String(wrong).slice(0, 30)} is no address`, () => assert.equal(urlField.read(wrong), undefined));
}
