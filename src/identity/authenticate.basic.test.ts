import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Secret } from '../lib/secret.ts';
import { isAccount } from './authenticate.ts';

const account = (username: string, password: string) => ({ username, password: new Secret(password) });
const ADMIN = account('oscar', 's3cret');

const cases = [
  { name: 'both right', given: account('oscar', 's3cret'), configured: ADMIN, same: true },
  { name: 'another user', given: account('Oscar', 's3cret'), configured: ADMIN, same: false },
  { name: 'another password', given: account('oscar', 's3cret '), configured: ADMIN, same: false },
  {
    name: 'user and password divided at another character',
    given: account('oscars', '3cret'),
    configured: ADMIN,
    same: false,
  },
  {
    name: 'no password configured and none given',
    given: account('oscar', ''),
    configured: account('oscar', ''),
    same: false,
  },
  {
    name: 'no user configured and none given',
    given: account('', 's3cret'),
    configured: account('', 's3cret'),
    same: false,
  },
];

for (const { name, given, configured, same } of cases) {
  test(`Basic account: ${name}: ${same ? 'matches' : 'does not match'}`, () =>
    assert.equal(isAccount(given, configured), same));
}
