import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type Issuer, startIssuer } from '../../../test/support/issuer.ts';
import { ALICE } from '../../../test/support/issuer-users.ts';
import { Secret } from '../../lib/secret.ts';
import { ClientError } from './errors.ts';
import { Logins } from './logins.ts';
import { loadCredentials } from './session.ts';

let issuer: Issuer;
before(async () => {
  issuer = await startIssuer();
});
after(() => issuer.stop());

/** Logged in for cluster `one`, with an access token that has that long to live. */
async function loggedIn(t: { after: (how: () => void) => void }, lifeMs: number): Promise<Logins> {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-logins-'));
  t.after(() => rmSync(directory, { recursive: true }));
  const logins = new Logins(join(directory, 'config.yaml'));
  const { accessToken, refreshToken } = await issuer.tokensFor(ALICE);
  const tokens = {
    accessToken: new Secret(accessToken),
    expiresAt: Date.now() + lifeMs,
    refreshToken: new Secret(refreshToken),
  };
  await logins.put('login', { issuer: issuer.url, clientId: 'oscar', user: 'alice' }, tokens, ['one']);
  return logins;
}

const HOUR = 3_600_000;

test('login: it is stored in a file that only its owner can read', async (t) => {
  const logins = await loggedIn(t, HOUR);
  assert.equal(statSync(logins.path).mode & 0o777, 0o600);
  assert.deepEqual(logins.at('one')?.login.user, 'alice');
  assert.equal(logins.at('two'), undefined);
});

test('login: a valid access token is not renewed', async (t) => {
  const logins = await loggedIn(t, HOUR);
  const asked = issuer.requests.token;
  await logins.accessToken('login');
  assert.equal(issuer.requests.token, asked);
});

test('login: concurrent processes use a refresh token only once', async (t) => {
  const logins = await loggedIn(t, 0);
  const asked = issuer.requests.token;
  // Each as a process of its own would: nothing but the file is shared.
  const tokens = await Promise.all(Array.from({ length: 5 }, () => new Logins(logins.path).accessToken('login')));
  assert.equal(issuer.requests.token - asked, 1);
  assert.equal(new Set(tokens.map((each) => each.reveal())).size, 1);
  const kept = readFileSync(logins.path, 'utf8');
  writeFileSync(logins.path, kept.replace(/"expiresAt": \d+/, '"expiresAt": 0'));
  await logins.accessToken('login');
});

test('login: a rejected refresh token means that the login has expired', async (t) => {
  const logins = await loggedIn(t, 0);
  writeFileSync(
    logins.path,
    readFileSync(logins.path, 'utf8').replace(/"refreshToken": "[^"]+"/, '"refreshToken": "x"'),
  );
  await assert.rejects(
    logins.accessToken('login'),
    (error) =>
      error instanceof ClientError && error.code === 'login-needed' && /has expired.*oscar login/.test(error.message),
  );
});

test('login: an unreachable issuer is not an expired login', async (t) => {
  const logins = await loggedIn(t, 0);
  await issuer.stop();
  try {
    await assert.rejects(
      logins.accessToken('login'),
      (error) => error instanceof ClientError && error.code === 'unreachable' && error.message.includes(issuer.url),
    );
  } finally {
    await issuer.start();
  }
  await logins.accessToken('login');
});

test('login: it has precedence over the configuration', async (t) => {
  const logins = await loggedIn(t, HOUR);
  const entry = { endpoint: 'http://x', auth_user: 'oscar', auth_password: 'p', ssl_verify: true };
  assert.equal((await loadCredentials('one', entry, logins)).kind, 'bearer');
  const { kind, authorization } = await loadCredentials('two', entry, logins);
  assert.equal(kind, 'basic');
  assert.equal((await authorization()).reveal(), `Basic ${Buffer.from('oscar:p').toString('base64')}`);
  await logins.remove('login');
  assert.equal((await loadCredentials('one', entry, logins)).kind, 'basic');
});

test('login: a refresh token of oscar-cli is used at the issuer that it names', async (t) => {
  const logins = await loggedIn(t, HOUR);
  const claims = Buffer.from(JSON.stringify({ iss: issuer.url, azp: 'oscar' })).toString('base64url');
  const entry = { endpoint: 'http://x', oidc_refresh_token: `e30.${claims}.x`, ssl_verify: true };
  const { authorization } = await loadCredentials('two', entry, logins);
  // It is nobody's; but the issuer it names was asked.
  const asked = issuer.requests.token;
  await assert.rejects(authorization(), /has expired/);
  assert.equal(issuer.requests.token, asked + 1);
});

test('login: without credentials, the error says how to log in', async (t) => {
  const logins = await loggedIn(t, HOUR);
  const entry = { endpoint: 'http://x', oidc_account_name: 'egi', ssl_verify: true };
  await assert.rejects(
    loadCredentials('two', entry, logins),
    (error) =>
      error instanceof ClientError && error.code === 'login-needed' && /--cluster two --issuer URL/.test(error.message),
  );
});
