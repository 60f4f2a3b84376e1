import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { startIssuer } from './issuer.ts';
import { ALICE, BOB } from './issuer-users.ts';

test('test issuer: an access token is a JWT with the claims of its user', async () => {
  await using issuer = await startIssuer({ audience: 'cluster-a', accessTokenTtl: 120 });
  const { accessToken } = await issuer.tokensFor(ALICE);
  const { iss, sub, aud, name, iat = 0, exp } = decodeJwt(accessToken);
  assert.deepEqual([iss, sub, aud, name, exp], [issuer.url, ALICE.sub, 'cluster-a', 'Alice', iat + 120]);
});

test('test issuer: reuse of a refresh token revokes the grant', async () => {
  await using issuer = await startIssuer();
  const first = await issuer.tokensFor(BOB);
  const second = await issuer.refresh(first.refreshToken);
  assert.equal(decodeJwt(second.accessToken).sub, BOB.sub);
  assert.notEqual(second.refreshToken, first.refreshToken);

  await assert.rejects(issuer.refresh(first.refreshToken), /invalid_grant/);
  await assert.rejects(issuer.refresh(second.refreshToken), /invalid_grant/);
});

test('test issuer: without rotation, a refresh token stays valid', async () => {
  await using issuer = await startIssuer({ rotateRefreshTokens: false });
  const { refreshToken } = await issuer.tokensFor(BOB);
  assert.equal((await issuer.refresh(refreshToken)).refreshToken, refreshToken);
  assert.equal((await issuer.refresh(refreshToken)).refreshToken, refreshToken);
});

test('test issuer: clients can have a secret, and access tokens can be opaque', async () => {
  await using issuer = await startIssuer({ clientSecret: 'a secret: %', accessTokenFormat: 'opaque' });
  const { accessToken, refreshToken } = await issuer.tokensFor(ALICE);
  assert.throws(() => decodeJwt(accessToken));
  await issuer.refresh(refreshToken);
  const body = new URLSearchParams({ client_id: 'oscar', grant_type: 'refresh_token', refresh_token: refreshToken });
  assert.equal((await fetch(`${issuer.url}/token`, { method: 'POST', body })).status, 401);
});

test('test issuer: grants survive a restart and a new key', async () => {
  await using issuer = await startIssuer();
  const { accessToken, refreshToken } = await issuer.tokensFor(ALICE);
  await issuer.stop();
  await assert.rejects(issuer.tokensFor(ALICE), /fetch failed/);
  await issuer.start();
  await issuer.rotateKeys();
  const refreshed = await issuer.refresh(refreshToken);
  assert.notEqual(decodeProtectedHeader(refreshed.accessToken).kid, decodeProtectedHeader(accessToken).kid);
});

test("test issuer: userinfo returns the claims of the token's user only", async () => {
  await using issuer = await startIssuer({ accessTokenClaims: [] });
  await using other = await startIssuer();
  const userinfo = (token: string) => fetch(`${issuer.url}/me`, { headers: { authorization: `Bearer ${token}` } });

  const { accessToken } = await issuer.tokensFor(ALICE);
  assert.equal(decodeJwt(accessToken)['name'], undefined);
  assert.deepEqual(await (await userinfo(accessToken)).json(), { sub: ALICE.sub, ...ALICE.claims });
  assert.equal((await userinfo((await other.tokensFor(ALICE)).accessToken)).status, 401);
  assert.equal(issuer.requests.userinfo, 2);
});
