import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import { type TestContext, test } from 'node:test';
import { Secret } from '../lib/secret.ts';
import { isAccount, matchesServiceToken } from './authenticate.ts';

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

/** Returns a function that runs `compare` and returns the lengths of the values that it passed to `timingSafeEqual`. */
function watchComparisons(t: TestContext): (compare: () => boolean) => number[] {
  const original = crypto.timingSafeEqual;
  const compared: number[] = [];
  crypto.timingSafeEqual = (a, b) => {
    compared.push(a.byteLength);
    return original(a, b);
  };
  syncBuiltinESMExports();
  t.after(() => {
    crypto.timingSafeEqual = original;
    syncBuiltinESMExports();
  });
  return (compare) => {
    compared.length = 0;
    assert.equal(compare(), false);
    return [...compared];
  };
}

test('Basic account: user and password are both compared in constant time, however much of them is right (S13)', (t) => {
  const comparisons = watchComparisons(t);
  const wrong = [
    account('x', 'y'),
    account('oscar', 's3creT'),
    account('oscaR', 's3cret'),
    account('o', 'x'.repeat(500)),
  ];
  for (const given of wrong)
    assert.deepEqual(
      comparisons(() => isAccount(given, ADMIN)),
      [32, 32],
    );
});

test('service token: is compared in constant time, however much of it is right (S13)', (t) => {
  const comparisons = watchComparisons(t);
  const token = new Secret('a'.repeat(64));
  for (const bearer of ['b'.repeat(64), `${'a'.repeat(63)}b`]) {
    assert.deepEqual(
      comparisons(() => matchesServiceToken(bearer, { token })),
      [32],
    );
  }
});
