import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readPersonName } from './token-verifier.ts';

const names = [
  { name: 'the claim name is preferred', claims: { name: 'Alice', preferred_username: 'al' }, shown: 'Alice' },
  { name: 'preferred_username is the fallback', claims: { preferred_username: 'al' }, shown: 'al' },
  { name: 'a blank name is ignored', claims: { name: ' ', preferred_username: 'al' }, shown: 'al' },
  { name: 'a name that is not a string is ignored', claims: { name: { first: 'Alice' } }, shown: undefined },
  { name: 'invisible characters are removed', claims: { name: 'Al\u202Eice\n' }, shown: 'Alice' },
  { name: 'there may be no name', claims: {}, shown: undefined },
];
for (const { name, claims, shown } of names) {
  test(`display name: ${name}`, () => assert.equal(readPersonName(claims), shown));
}
