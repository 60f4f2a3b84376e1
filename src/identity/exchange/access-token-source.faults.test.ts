import assert from 'node:assert/strict';
import type { RequestListener } from 'node:http';
import { describe, test } from 'node:test';
import { ALICE, BOB } from '../../../test/support/issuer-users.ts';
import { type SecretStore, StoreError } from '../../ports/index.ts';
import { GRANT_LOCK_MS } from '../grants/grant-lock.ts';
import { submit } from '../grants/vault.fixture.ts';
import { ISSUER_ANSWER_LIMIT, ISSUER_DEADLINE } from '../oidc/bounded-fetch.ts';
import { REDEEM_DEADLINE } from './authorization-server.ts';
import { asUser, auditRecords, HOUR, openExchange, toService } from './exchange.fixture.ts';

const S1 = toService('s1');
const AWAY = { code: 'issuer-unavailable' };

const answer =
  (status: number, body: unknown, type = 'application/json'): RequestListener =>
  (_request, response) => {
    response.writeHead(status, { 'content-type': type, location: 'http://127.0.0.1:9/' });
    response.end(typeof body === 'string' ? body : JSON.stringify(body));
  };

test('token exchange: an outage of the issuer does not end the grant', async () => {
  await using exchange = await openExchange();
  await exchange.submit('s1');
  await exchange.tokens.getToken(S1, 'before');
  await exchange.issuer.stop();
  await exchange.tokens.getToken(S1, 'from memory');
  exchange.wait(HOUR);
  for (let attempt = 0; attempt < 3; attempt++) {
    await assert.rejects(exchange.tokens.getToken(S1, 'while it is away'), AWAY);
    exchange.wait(60_000);
  }
  const { grant } = await exchange.grant('s1');
  assert.deepEqual([grant.state, grant.turn], ['proven', undefined]);
  await exchange.issuer.start();
  await exchange.tokens.getToken(S1, 'after');
  assert.equal(auditRecords(exchange.lines).length, 3);
});

test('token exchange: a slow answer of the issuer is awaited, because the token that was sent is spent', async () => {
  await using exchange = await openExchange();
  await exchange.submit('s1');
  await exchange.tokens.getToken(S1, 'before');
  const { refreshToken, accessToken } = await exchange.issuer.refresh(
    (await exchange.grant('s1')).token?.reveal() ?? '',
  );
  const late = { access_token: accessToken, token_type: 'Bearer', expires_in: 3600, refresh_token: refreshToken };
  const restore = exchange.issuer.answerInstead('token', (request, response) => {
    setTimeout(() => answer(200, late)(request, response), ISSUER_DEADLINE + 500);
  });
  exchange.wait(HOUR);
  await exchange.tokens.getToken(S1, 'meanwhile');
  restore();
  assert.ok((await exchange.grant('s1')).token?.equals(refreshToken));
  exchange.wait(HOUR);
  await exchange.tokens.getToken(S1, 'after');
});

test('grant lock: an exchange does not start if the lock could expire before the issuer answers', async () => {
  await using exchange = await openExchange();
  await exchange.submit('s1');
  const { secrets } = exchange.vault;
  const asked = exchange.issuer.requests;
  const before = asked.token;
  let turns = 0;
  const newUid = () => `turn ${++turns}`;
  const held: SecretStore = {
    get: (...which) => secrets.get(...which),
    remove: (...which) => secrets.remove(...which),
    keys: (...which) => secrets.keys(...which),
    async put(...change) {
      const version = await secrets.put(...change);
      // The first holder of the lock is delayed.
      if (turns === 1) exchange.wait(GRANT_LOCK_MS - REDEEM_DEADLINE);
      return version;
    },
  };
  await exchange.replica({ vault: { ...exchange.vault, newUid, secrets: held } }).getToken(S1, 'offer');
  assert.deepEqual([turns, asked.token], [2, before + 1]);
});

test('token exchange: an issuer that is down at first use does not end the grant', async () => {
  await using exchange = await openExchange();
  await exchange.submit('s1');
  await exchange.issuer.stop();
  await assert.rejects(exchange.tokens.getToken(S1, 'offer'), AWAY);
  await exchange.issuer.start();
  exchange.wait(60_000);
  await exchange.tokens.getToken(S1, 'offer');
});

describe('token exchange: an answer that says nothing about the token does not end the grant:', () => {
  const cases: [string, RequestListener][] = [
    ['503', answer(503, { error: 'invalid_grant' })],
    ['429', answer(429, { error: 'invalid_grant' })],
    ['an error page of a proxy', answer(403, '<h1>no</h1>', 'text/html')],
    ['a redirect', answer(302, '')],
    ['an answer that is cut off', (request) => void request.socket.destroy()],
    ['an answer that is too long', (_request, response) => void response.end('x'.repeat(ISSUER_ANSWER_LIMIT + 1))],
    ['an answer that is not JSON', answer(200, 'yes')],
    ['an answer without tokens', answer(200, { token_type: 'Bearer' })],
    ['tokens of another kind', answer(200, { access_token: 'x', token_type: 'mac' })],
    ['null', answer(200, null)],
  ];
  for (const [name, listener] of cases) {
    test(name, async () => {
      await using exchange = await openExchange();
      await exchange.submit('s1');
      const restore = exchange.issuer.answerInstead('token', listener);
      await assert.rejects(exchange.tokens.getToken(S1, 'offer'), AWAY);
      const asked = exchange.issuer.requests.token;
      await assert.rejects(exchange.tokens.getToken(S1, 'offer'), AWAY);
      assert.equal(exchange.issuer.requests.token, asked, 'an immediate retry is answered from the cache');
      restore();
      exchange.wait(3_000);
      await exchange.tokens.getToken(S1, 'offer');
    });
  }
});

test('token exchange: a failure for one token does not delay other tokens', async () => {
  await using exchange = await openExchange();
  await submit('crashes-the-issuer', asUser(BOB), 's2', exchange.vault);
  const restore = exchange.issuer.answerInstead('token', answer(500, 'oops'));
  await assert.rejects(exchange.tokens.getToken(toService('s2', BOB), 'offer'), AWAY);
  restore();
  await exchange.submit('s1');
  await exchange.tokens.getToken(S1, 'offer');
});

test('token exchange: a new refresh token is stored even if the rest of the answer is unusable', async () => {
  await using exchange = await openExchange();
  const brought = await exchange.submit('s1');
  const { refreshToken } = await exchange.issuer.refresh(brought);
  const odd = { access_token: 'x', token_type: 'Bearer', id_token: 'not one', refresh_token: refreshToken };
  const restore = exchange.issuer.answerInstead('token', answer(200, odd));
  await assert.rejects(exchange.tokens.getToken(S1, 'offer'), AWAY);
  restore();
  assert.ok((await exchange.grant('s1')).token?.equals(refreshToken));
  exchange.wait(3_000);
  await exchange.tokens.getToken(S1, 'offer');
});

test('token exchange: a grant stays unproven while the issuer cannot confirm the user', async () => {
  await using exchange = await openExchange();
  await exchange.submit('s1');
  const restore = exchange.issuer.answerInstead('jwks', answer(500, 'oops'));
  await assert.rejects(exchange.tokens.getToken(S1, 'offer'), AWAY);
  restore();
  assert.equal((await exchange.grant('s1')).grant.state, 'unproven');
  exchange.wait(60_000);
  await exchange.replica().getToken(S1, 'offer');
  assert.equal((await exchange.grant('s1')).grant.state, 'proven');
});

test('token exchange: a refresh token whose user cannot be identified is not used', async () => {
  await using exchange = await openExchange();
  await exchange.submit('s1');
  const opaque = { access_token: 'opaque', token_type: 'Bearer', expires_in: 3600 };
  const restore = exchange.issuer.answerInstead('token', answer(200, opaque));
  await assert.rejects(exchange.tokens.getToken(S1, 'offer'), { code: 'subject-unknown', message: /scopes openid/ });
  const forged = { ...opaque, id_token: `${btoa('{"alg":"none"}')}.${btoa(JSON.stringify({ sub: ALICE.sub }))}.` };
  exchange.issuer.answerInstead('token', answer(200, forged));
  exchange.wait(HOUR);
  await assert.rejects(exchange.tokens.getToken(S1, 'offer'), AWAY);
  restore();
  assert.deepEqual(auditRecords(exchange.lines), []);
  assert.equal((await exchange.grant('s1')).grant.state, 'unproven');
});

test('token exchange: no refresh token is lost if the store fails after the exchange', async () => {
  await using exchange = await openExchange();
  await exchange.submit('s1');
  const { secrets } = exchange.vault;
  // The store goes down as soon as the issuer has got the request.
  const asked = exchange.issuer.requests.token;
  let isBack = false;
  const isDown = () => !isBack && exchange.issuer.requests.token > asked;
  const failing: SecretStore = {
    get: (...args) => secrets.get(...args),
    put: (...args) => (isDown() ? Promise.reject(new StoreError('unavailable', 'down')) : secrets.put(...args)),
    remove: (...args) => secrets.remove(...args),
    keys: (...args) => secrets.keys(...args),
  };
  const source = exchange.replica({ vault: { ...exchange.vault, secrets: failing } });
  await assert.rejects(source.getToken(S1, 'offer'), { code: 'unavailable' });
  await assert.rejects(source.getToken(S1, 'offer'), { code: 'unavailable' });
  assert.deepEqual(auditRecords(exchange.lines), [], 'no token is returned before it is stored');
  isBack = true;
  await source.getToken(S1, 'offer');
  assert.equal((await exchange.grant('s1')).grant.state, 'proven');
});
