import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { inspect } from 'node:util';
import * as fc from 'fast-check';
import { exportJWK, exportSPKI, generateKeyPair, importJWK, SignJWT, UnsecuredJWT } from 'jose';
import { type Issuer, startIssuer } from '../../../test/support/issuer.ts';
import { ALICE } from '../../../test/support/issuer-users.ts';
import type { TokenVerifier } from '../authenticate.ts';
import { IdentityError } from '../errors.ts';
import { createTokenVerifier } from './token-verifier.ts';

/** Tokens that must not get in (S1). Each differs from a good one in what its name says. */

let issuer: Issuer;
let stranger: Issuer;
let oidc: TokenVerifier;
const now = () => Math.floor(Date.now() / 1000);
const good = () => ({ sub: ALICE.sub, group_membership: ['/oscar'], exp: now() + 60 });

before(async () => {
  [issuer, stranger] = await Promise.all([startIssuer(), startIssuer()]);
  oidc = createTokenVerifier({ issuers: [issuer.url], groups: ['/oscar'], audience: 'oscar', usersAdmin: [] });
});
after(() => Promise.all([issuer.stop(), stranger.stop()]));

async function rejected(token: string, message: RegExp): Promise<void> {
  await assert.rejects(oidc.verify(token), (error) => {
    assert.ok(error instanceof IdentityError);
    assert.equal(error.code, 'bad-token');
    assert.match(error.message, message);
    for (const part of token.split('.').filter((text) => text.length > 8)) assert.ok(!inspect(error).includes(part));
    return true;
  });
}

test('a token without any fault is accepted, so that the others fail for their fault', async () => {
  assert.equal((await oidc.verify(await issuer.sign(good()))).uid, ALICE.sub);
});

for (const text of ['x', 'a.b', 'a.b.c', 'a'.repeat(64), '..', 'e30.e30.', 'null', 'ä.ö.ü']) {
  test(`${text.slice(0, 10)} is not a JWT`, () => rejected(text, /not a JWT|does not say who issued it/));
}

test('whatever text is sent, it is refused and nothing breaks', async () => {
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

test('a token of another issuer', async () => {
  await rejected((await stranger.tokensFor(ALICE)).accessToken, /issuer that is not accepted/);
});

test('a token of another issuer that claims to be of ours', async () => {
  await rejected(await stranger.sign({ ...good(), iss: issuer.url }), /not one that its issuer signed/);
});

test('a token of an issuer whose name only begins like ours', async () => {
  await rejected(await issuer.sign({ ...good(), iss: `${issuer.url}/` }), /issuer that is not accepted/);
});

test('a token that does not say its issuer', async () => {
  await rejected(await issuer.sign({ ...good(), iss: undefined }), /does not say who issued it/);
});

test('a token signed by another key that claims to be the key of the issuer', async () => {
  const { privateKey } = await generateKeyPair('RS256');
  const { kid = '' } = issuer.publicKey();
  const token = await new SignJWT({ ...good(), iss: issuer.url, aud: 'oscar' })
    .setProtectedHeader({ alg: 'RS256', kid })
    .sign(privateKey);
  await rejected(token, /not one that its issuer signed/);
});

test('a token that brings its own key', async () => {
  const { privateKey, publicKey } = await generateKeyPair('RS256');
  const token = await new SignJWT({ ...good(), iss: issuer.url, aud: 'oscar' })
    .setProtectedHeader({
      alg: 'RS256',
      jwk: await exportJWK(publicKey),
    })
    .sign(privateKey);
  await rejected(token, /not one that its issuer signed/);
});

test('a token signed with the public key of the issuer as a shared secret', async () => {
  const jwk = issuer.publicKey();
  const key = await importJWK(jwk, 'RS256', { extractable: true });
  assert.ok(!(key instanceof Uint8Array));
  for (const secret of [await exportSPKI(key), JSON.stringify(jwk), jwk.n ?? '']) {
    const token = await new SignJWT({ ...good(), iss: issuer.url, aud: 'oscar' })
      .setProtectedHeader({ alg: 'HS256', kid: jwk.kid ?? '' })
      .sign(new TextEncoder().encode(secret));
    await rejected(token, /not signed in a way that is accepted/);
  }
});

test('a token without a signature', async () => {
  const token = new UnsecuredJWT({ ...good(), iss: issuer.url, aud: 'oscar' }).encode();
  await rejected(token, /not signed in a way that is accepted|not one that its issuer signed/);
});

test('a good token with its signature cut off', async () => {
  const [header, payload] = (await issuer.sign(good())).split('.');
  await rejected(`${header}.${payload}.`, /not one that its issuer signed/);
});

test('a good token with another payload', async () => {
  const [header, , signature] = (await issuer.sign(good())).split('.');
  const payload = Buffer.from(JSON.stringify({ ...good(), sub: 'mallory', iss: issuer.url, aud: 'oscar' }));
  await rejected(`${header}.${payload.toString('base64url')}.${signature}`, /not one that its issuer signed/);
});

const faults: { name: string; claims: () => Record<string, unknown>; typ?: string; message: RegExp }[] = [
  { name: 'that has expired', claims: () => ({ exp: now() - 60 }), message: /has expired/ },
  { name: 'that never expires', claims: () => ({ exp: undefined }), message: /does not say when it expires/ },
  { name: 'whose expiry is no number', claims: () => ({ exp: '2099' }), message: /does not say when it expires/ },
  { name: 'that is not valid yet', claims: () => ({ nbf: now() + 60 }), message: /not valid yet/ },
  { name: 'for another audience', claims: () => ({ aud: ['account', 'other'] }), message: /another audience.*"oscar"/ },
  { name: 'for no audience', claims: () => ({ aud: undefined }), message: /another audience/ },
  { name: 'about nobody', claims: () => ({ sub: undefined }), message: /does not say who you are/ },
  { name: 'about a number', claims: () => ({ sub: 7 }), message: /does not say who you are/ },
  { name: 'about two lines', claims: () => ({ sub: 'a\nb' }), message: /does not say who you are/ },
  { name: 'about the administrator', claims: () => ({ sub: 'cluster_admin' }), message: /no user may be called/ },
  { name: 'that is an ID token of Keycloak', claims: () => ({ typ: 'ID' }), message: /another kind/ },
  { name: 'that tells of a log-out', claims: () => ({}), typ: 'logout+jwt', message: /another kind/ },
];
for (const { name, claims, typ, message } of faults) {
  test(`a well-signed token ${name}`, async () => {
    await rejected(await issuer.sign({ ...good(), ...claims() }, { alg: 'RS256', ...(typ ? { typ } : {}) }), message);
  });
}

test('clocks may differ by a few seconds', async () => {
  await oidc.verify(await issuer.sign({ ...good(), exp: now() - 5 }));
  await oidc.verify(await issuer.sign({ ...good(), nbf: now() + 5 }));
});

test('a token of which one audience is ours is accepted', async () => {
  await oidc.verify(await issuer.sign({ ...good(), aud: ['account', 'oscar'] }));
});
