import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Secret } from '../lib/secret.ts';
import { isServiceToken, matchesServiceToken, newServiceToken } from './authenticate.ts';

test('service token: a new one is 64 lower-case hex digits, and unique', () => {
  const tokens = Array.from({ length: 100 }, () => newServiceToken().reveal());
  for (const token of tokens) assert.match(token, /^[0-9a-f]{64}$/);
  assert.equal(new Set(tokens).size, tokens.length);
});

test('service token: is recognised by its form', () => {
  const token = newServiceToken().reveal();
  assert.equal(isServiceToken(token), true);
  for (const other of ['', token.slice(1), `${token}0`, token.replace(/^./, 'G'), 'A'.repeat(64), `${token}\n`]) {
    assert.equal(isServiceToken(other), false, other);
  }
});

test('service token: matches its own service only', () => {
  const token = newServiceToken();
  assert.equal(matchesServiceToken(token.reveal(), { token }), true);
  assert.equal(matchesServiceToken(token.reveal(), { token: newServiceToken() }), false);
});

test('service token: nothing matches a service with an empty token', () => {
  assert.equal(matchesServiceToken('', { token: new Secret('') }), false);
});
