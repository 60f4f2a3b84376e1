import assert from 'node:assert/strict';
import { test } from 'node:test';
import { IdentityError } from '../errors.ts';
import { readPersonName, readUid } from './token-verifier.ts';

for (const sub of ['00000001-alice-4000-8000-000000000001', '62bb11b4@egi.eu', 'google-oauth2|1234', 'a'.repeat(255)]) {
  test(`${sub.slice(0, 40)} is a uid`, () => assert.equal(readUid({ sub }), sub));
}

const impossible = [
  { name: 'no sub', sub: undefined },
  { name: 'an empty one', sub: '' },
  { name: 'a blank one', sub: '  ' },
  { name: 'a number', sub: 42 },
  { name: 'a list', sub: ['alice'] },
  { name: 'a very long one', sub: 'a'.repeat(256) },
  { name: 'one with a line break', sub: 'alice\nbob' },
  { name: 'one with a NUL', sub: 'alice\0' },
  { name: 'one that prints backwards', sub: 'alice\u202Ebob' },
  { name: 'the owner of the services of the administrator', sub: 'cluster_admin' },
];
for (const { name, sub } of impossible) {
  test(`${name} is no uid`, () => {
    assert.throws(
      () => readUid({ sub }),
      (error) => error instanceof IdentityError && error.code === 'bad-token',
    );
  });
}

const names = [
  { name: 'the name comes first', claims: { name: 'Alice', preferred_username: 'al' }, shown: 'Alice' },
  { name: 'then the preferred user name', claims: { preferred_username: 'al' }, shown: 'al' },
  { name: 'a blank name is none', claims: { name: ' ', preferred_username: 'al' }, shown: 'al' },
  { name: 'a name that is no text is none', claims: { name: { first: 'Alice' } }, shown: undefined },
  { name: 'what does not print is left out', claims: { name: 'Al\u202Eice\n' }, shown: 'Alice' },
  { name: 'there may be no name', claims: {}, shown: undefined },
];
for (const { name, claims, shown } of names) {
  test(name, () => assert.equal(readPersonName(claims), shown));
}
