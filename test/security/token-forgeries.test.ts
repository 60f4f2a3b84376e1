import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { inspect } from 'node:util';
import * as fc from 'fast-check';
import { exportJWK, exportSPKI, generateKeyPair, importJWK, SignJWT, UnsecuredJWT } from 'jose';
import type { TokenVerifier } from '../../src/identity/authenticate.ts';
import { IdentityError } from '../../src/identity/errors.ts';
import { createTokenVerifier } from '../../src/identity/oidc/token-verifier.ts';
import { type Issuer, startIssuer } from '../support/issuer.ts';
import { ALICE } from '../support/issuer-users.ts';

/** Tokens that must be rejected (S1). Each differs from a valid one as its test name says. */

let issuer: Issuer;
let otherIssuer: Issuer;
let oidc: TokenVerifier;
const now = () => Math.floor(Date.now() / 1000);
const good = () => ({ sub: ALICE.sub, group_membership: ['/oscar'], exp: now() + 60 });

before(async () => {
  [issuer, otherIssuer] = await Promise.all([startIssuer(), startIssuer()]);
  oidc = createTokenVerifier({
    issuers: [issuer.url],
    groups: ['/oscar'],
    audiences: ['dashboard', 'oscar'],
    usersAdmin: [],
  });
});
after(() => Promise.all([issuer.stop(), otherIssuer.stop()]));

async function rejected(token: string, message: RegExp): Promise<void> {
  await assert.rejects(oidc.verify(token), (error) => {
    assert.ok(error instanceof IdentityError);
    assert.equal(error.code, 'bad-token');
    assert.match(error.message, message);
    for (const part of token.split('.').filter((text) => text.length > 8)) assert.ok(!inspect(error).includes(part));
    return true;
  });
}

test('token verification: a valid token is accepted, so that the others fail for the reason in their name', async () => {
  assert.equal((await oidc.verify(await issuer.sign(good()))).uid, ALICE.sub);
});

for (const text of ['x', 'a.b', 'a.b.c', 'a'.repeat(64), '..', 'e30.e30.', 'null', 'ä.ö.ü']) {
  test(`token verification: ${text.slice(0, 10)} is rejected because it is not a JWT`, () =>
    rejected(text, /not a JWT|has no "iss"/));
}

test('token verification: any random text is rejected with bad-token', async () => {
  const part = fc.oneof(
    fc.string(),
    fc.json().map((json) => Buffer.from(json).toString('base64url')),
  );
  const text = fc.oneof(
    fc.string(),
    fc.tuple(part, part, part).map((parts) => parts.join('.')),
  );
  await fc.assert(
    fc.asyncProperty(text, async (token) => {
      await assert.rejects(oidc.verify(token), (error) => error instanceof IdentityError && error.code === 'bad-token');
    }),
  );
});

test('token verification: a token of another issuer is rejected', async () => {
  await rejected((await otherIssuer.tokensFor(ALICE)).accessToken, /issuer of the access token is not accepted/);
});

test('token verification: a token of another issuer that names ours is rejected', async () => {
  await rejected(await otherIssuer.sign({ ...good(), iss: issuer.url }), /no valid signature of its issuer/);
});

test('token verification: an issuer name that only starts with ours is rejected', async () => {
  await rejected(await issuer.sign({ ...good(), iss: `${issuer.url}/` }), /issuer of the access token is not accepted/);
});

test('token verification: a token without an issuer is rejected', async () => {
  await rejected(await issuer.sign({ ...good(), iss: undefined }), /has no "iss"/);
});

test("token verification: a token with another key under the issuer's key id is rejected", async () => {
  const { privateKey } = await generateKeyPair('RS256');
  const { kid = '' } = issuer.publicKey();
  const token = await new SignJWT({ ...good(), iss: issuer.url, aud: 'oscar' })
    .setProtectedHeader({ alg: 'RS256', kid })
    .sign(privateKey);
  await rejected(token, /no valid signature of its issuer/);
});

test('token verification: a token with its own key in the header is rejected', async () => {
  const { privateKey, publicKey } = await generateKeyPair('RS256');
  const token = await new SignJWT({ ...good(), iss: issuer.url, aud: 'oscar' })
    .setProtectedHeader({
      alg: 'RS256',
      jwk: await exportJWK(publicKey),
    })
    .sign(privateKey);
  await rejected(token, /no valid signature of its issuer/);
});

test("token verification: a token signed with the issuer's public key as a shared secret is rejected", async () => {
  const jwk = issuer.publicKey();
  const key = await importJWK(jwk, 'RS256', { extractable: true });
  assert.ok(!(key instanceof Uint8Array));
  for (const secret of [await exportSPKI(key), JSON.stringify(jwk), jwk.n ?? '']) {
    const token = await new SignJWT({ ...good(), iss: issuer.url, aud: 'oscar' })
      .setProtectedHeader({ alg: 'HS256', kid: jwk.kid ?? '' })
      .sign(new TextEncoder().encode(secret));
    await rejected(token, /signature algorithm of the access token is not accepted/);
  }
});

test('token verification: an unsigned token is rejected', async () => {
  const token = new UnsecuredJWT({ ...good(), iss: issuer.url, aud: 'oscar' }).encode();
  await rejected(token, /signature algorithm of the access token is not accepted|no valid signature of its issuer/);
});

test('token verification: a token with its signature removed is rejected', async () => {
  const [header, payload] = (await issuer.sign(good())).split('.');
  await rejected(`${header}.${payload}.`, /no valid signature of its issuer/);
});

test('token verification: a token with another payload is rejected', async () => {
  const [header, , signature] = (await issuer.sign(good())).split('.');
  const payload = Buffer.from(JSON.stringify({ ...good(), sub: 'mallory', iss: issuer.url, aud: 'oscar' }));
  await rejected(`${header}.${payload.toString('base64url')}.${signature}`, /no valid signature of its issuer/);
});

const faults: { name: string; claims: () => Record<string, unknown>; typ?: string; message: RegExp }[] = [
  { name: 'that has expired', claims: () => ({ exp: now() - 60 }), message: /has expired/ },
  { name: 'that never expires', claims: () => ({ exp: undefined }), message: /no valid "exp"/ },
  { name: 'with an expiry that is not a number', claims: () => ({ exp: '2099' }), message: /no valid "exp"/ },
  { name: 'that is not valid yet', claims: () => ({ nbf: now() + 60 }), message: /not valid yet/ },
  {
    name: 'for another audience',
    claims: () => ({ aud: ['account', 'other'] }),
    message: /another audience.*"dashboard" or "oscar"/,
  },
  { name: 'for no audience', claims: () => ({ aud: undefined }), message: /another audience/ },
  { name: 'without a subject', claims: () => ({ sub: undefined }), message: /no valid "sub"/ },
  { name: 'with a number as subject', claims: () => ({ sub: 7 }), message: /no valid "sub"/ },
  { name: 'with a line break in the subject', claims: () => ({ sub: 'a\nb' }), message: /no valid "sub"/ },
  { name: 'with the reserved subject cluster_admin', claims: () => ({ sub: 'cluster_admin' }), message: /is reserved/ },
  { name: 'that is an ID token of Keycloak', claims: () => ({ typ: 'ID' }), message: /another kind/ },
  { name: 'that is an ID token of Cognito', claims: () => ({ token_use: 'id' }), message: /another kind/ },
  { name: 'that is an ID token with at_hash', claims: () => ({ at_hash: 'x' }), message: /another kind/ },
  { name: 'that is an ID token with c_hash', claims: () => ({ c_hash: 'x' }), message: /another kind/ },
  {
    name: 'that is an ID token with nothing but the claims that every ID token has',
    claims: () => ({ scope: undefined, iat: now(), auth_time: now(), azp: 'oscar' }),
    message: /another kind/,
  },
  { name: 'that is a logout token', claims: () => ({}), typ: 'logout+jwt', message: /another kind/ },
];
for (const { name, claims, typ, message } of faults) {
  test(`token verification: a correctly signed token ${name} is rejected`, async () => {
    await rejected(await issuer.sign({ ...good(), ...claims() }, { alg: 'RS256', ...(typ ? { typ } : {}) }), message);
  });
}

test('token verification: an ID token of the issuer is rejected', async () => {
  await rejected((await issuer.tokensFor(ALICE)).idToken, /another kind/);
});

/** Access tokens as issuers write them. */
const accepted: { name: string; claims: Record<string, unknown>; typ?: string }[] = [
  { name: 'RFC 9068', claims: { scope: undefined, client_id: 'oscar', jti: 'x' }, typ: 'at+jwt' },
  {
    name: 'Keycloak and EGI Check-in',
    claims: { typ: 'Bearer', azp: 'oscar', aud: 'account', scope: 'openid', acr: '1', auth_time: 1 },
    typ: 'JWT',
  },
  {
    name: 'Keycloak before 25, with the nonce of the login',
    claims: { typ: 'Bearer', azp: 'oscar', aud: 'account', nonce: 'x', scope: undefined },
    typ: 'JWT',
  },
  { name: 'INDIGO IAM', claims: { scope: undefined, aud: undefined, client_id: 'oscar', jti: 'x' } },
  { name: 'MITREid Connect', claims: { scope: undefined, aud: undefined, azp: 'oscar', jti: 'x' } },
  { name: 'Cognito', claims: { aud: undefined, token_use: 'access', client_id: 'oscar', scope: 'openid' } },
  { name: 'Entra ID', claims: { scope: undefined, scp: 'user.read', azp: 'oscar', aud: 'api' }, typ: 'JWT' },
  { name: 'Auth0', claims: { azp: 'oscar', aud: ['api', 'userinfo'], scope: 'openid profile' }, typ: 'JWT' },
];
for (const { name, claims, typ } of accepted) {
  test(`token verification: an access token as ${name} issues it is accepted`, async () => {
    const token = await issuer.sign({ ...good(), ...claims }, { alg: 'RS256', ...(typ ? { typ } : {}) });
    assert.equal((await oidc.verify(token)).uid, ALICE.sub);
  });
}

test('token verification: of an issuer like Dex, ID tokens for an audience of ours are accepted, and no others', async () => {
  const dex = createTokenVerifier({
    issuers: [issuer.url],
    idTokenIssuers: [issuer.url],
    groups: ['/oscar'],
    audiences: ['oscar'],
    usersAdmin: [],
  });
  const sign = (claims: object, typ?: string) =>
    issuer.sign(
      { ...good(), scope: undefined, at_hash: 'x', nonce: 'y', ...claims },
      { alg: 'RS256', ...(typ && { typ }) },
    );
  assert.equal((await dex.verify(await sign({}))).uid, ALICE.sub);
  const others = [{ aud: 'another-app' }, { aud: 'another-app', azp: 'oscar' }, { aud: undefined }, { typ: 'Refresh' }];
  for (const claims of [...others, { typ: 'Logout' }, { exp: now() - 60 }]) {
    await assert.rejects(async () => dex.verify(await sign(claims)), { code: 'bad-token' }, JSON.stringify(claims));
  }
  await assert.rejects(async () => dex.verify(await sign({}, 'logout+jwt')), { code: 'bad-token' });
});

test('token verification: clocks may differ by a few seconds', async () => {
  await oidc.verify(await issuer.sign({ ...good(), exp: now() - 5 }));
  await oidc.verify(await issuer.sign({ ...good(), nbf: now() + 5 }));
});

test('token verification: a token with several audiences is accepted if one is ours', async () => {
  await oidc.verify(await issuer.sign({ ...good(), aud: ['account', 'oscar'] }));
});
