import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ALICE, BOB } from '../../../test/support/issuer-users.ts';
import { Secret } from '../../lib/secret.ts';
import { attachGrant, detachGrants } from '../grants/attach.ts';
import { expireRetainedGrants } from '../grants/retain.ts';
import { asUser, HOUR, openExchange } from './exchange.fixture.ts';

const alice = (issuer: string) => asUser(ALICE, issuer) as { kind: 'user'; uid: string; issuer: string };

test('proof: a new token is redeemed once, and the rotated one is kept for the service that comes later', async () => {
  await using exchange = await openExchange();
  const { issuer, tokens, vault } = exchange;
  const sent = new Secret((await issuer.tokensFor(ALICE)).refreshToken);
  const before = issuer.requests.token;
  assert.equal(await tokens.proveToken(sent, alice(issuer.url)), 'proven');
  assert.equal(await tokens.proveToken(sent, alice(issuer.url)), 'proven', 'a second attempt with the same token');
  assert.equal(issuer.requests.token, before + 1);

  await attachGrant(sent, alice(issuer.url), 's1', vault);
  await tokens.releaseToken(sent);
  const keys = (await vault.secrets.keys('grant')).items.filter((key) => key.includes('retained'));
  assert.deepEqual(keys, []);
  // The service that exists holds the grant now; a further create with the token retains nothing.
  assert.equal(await exchange.replica().proveToken(sent, alice(issuer.url)), 'proven');
  assert.equal(issuer.requests.token, before + 1);
  await detachGrants('s1', vault);
  assert.deepEqual((await vault.secrets.keys('grant')).items, []);
});

test('proof: a token that the issuer rejects, or that belongs to another user, leaves nothing behind', async () => {
  await using exchange = await openExchange();
  const { issuer, tokens, vault } = exchange;
  await assert.rejects(tokens.proveToken(new Secret('dummy'), alice(issuer.url)), {
    code: 'token-rejected',
    message: /^environment\.secrets\.refresh_token: .*expired, revoked or of another client\. Get a new one/,
  });
  const bobs = new Secret((await issuer.tokensFor(BOB)).refreshToken);
  await assert.rejects(tokens.proveToken(bobs, alice(issuer.url)), { code: 'grant-refused', message: /another user/ });
  assert.deepEqual((await vault.secrets.keys('grant')).items, []);
});

test('proof: an issuer that is away rejects the create, and the same token works when it is back', async () => {
  await using exchange = await openExchange();
  const { issuer, tokens, vault } = exchange;
  const sent = new Secret((await issuer.tokensFor(ALICE)).refreshToken);
  await issuer.stop();
  await assert.rejects(tokens.proveToken(sent, alice(issuer.url)), { code: 'issuer-unavailable' });
  assert.deepEqual((await vault.secrets.keys('grant')).items, []);
  await issuer.start();
  exchange.wait(HOUR);
  assert.equal(await tokens.proveToken(sent, alice(issuer.url)), 'proven');
});

test('proof: a manager that may not redeem tokens accepts them unchecked, and the grant says why', async () => {
  await using exchange = await openExchange({ source: { client: undefined } });
  const { issuer, tokens, vault } = exchange;
  const sent = new Secret((await issuer.tokensFor(ALICE)).refreshToken);
  assert.equal(await tokens.proveToken(sent, alice(issuer.url)), 'unchecked');
  await attachGrant(sent, alice(issuer.url), 's1', vault);
  const record = (await vault.secrets.keys('grant')).items.find((key) => key.startsWith('grant/'));
  const stored = (await vault.secrets.get('grant', record ?? ''))?.values['grant']?.reveal() ?? '';
  assert.match(stored, /OIDC_CLIENT_ID/);
});

test('proof: a retained token expires after a day unless a service uses it', async () => {
  await using exchange = await openExchange();
  const { issuer, tokens, vault } = exchange;
  const sent = new Secret((await issuer.tokensFor(ALICE)).refreshToken);
  const used = new Secret((await issuer.tokensFor(ALICE)).refreshToken);
  await tokens.proveToken(sent, alice(issuer.url));
  await tokens.proveToken(used, alice(issuer.url));
  const id = await attachGrant(used, alice(issuer.url), 's1', vault);
  exchange.wait(23 * HOUR);
  await expireRetainedGrants(vault);
  assert.equal(await tokens.proveToken(sent, alice(issuer.url)), 'proven', 'it is still there');
  exchange.wait(2 * HOUR);
  await expireRetainedGrants(vault);
  const grants = (await vault.secrets.keys('grant')).items.filter((key) => key.startsWith('grant/'));
  assert.deepEqual(grants, [`grant/${id}`]);
});
