import assert from 'node:assert/strict';
import { test } from 'node:test';
import { IdentityError } from '../errors.ts';
import { readPersonName, readUid } from './token-verifier.ts';

for (const sub of ['00000001-alice-4000-8000-000000000001', '62bb11b4@egi.eu', 'google-oauth2|1234', 'a'.repeat(255)]) {
  test(`uid: ${sub.slice(0, 40)} is accepted`, () => assert.equal(readUid({ sub }), sub));
}

const impossible = [
  { name: 'a missing sub', sub: undefined },
  { name: 'an empty sub', sub: '' },
  { name: 'a blank sub', sub: '  ' },
  { name: 'a number', sub: 42 },
  { name: 'a list', sub: ['alice'] },
  { name: 'a sub of 256 characters', sub: 'a'.repeat(256) },
  { name: 'a sub with a line break', sub: 'alice\nbob' },
  { name: 'a sub with a NUL', sub: 'alice\0' },
  { name: 'a sub with a right-to-left override', sub: 'alice\u202Ebob' },
  { name: 'the owner of the services of the administrator', sub: 'cluster_admin' },
];
for (const { name, sub } of impossible) {
  test(`uid: ${name} is rejected`, () => {
    assert.throws(
      () => readUid({ sub }),
      (error) => error instanceof IdentityError && error.code === 'bad-token',
    );
  });
}

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
