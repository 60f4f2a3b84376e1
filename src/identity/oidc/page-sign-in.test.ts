import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { DEVICE_CODE_GRANT, PageSignIn } from './page-sign-in.ts';

const GRANT = {
  grant_type: 'authorization_code',
  code: 'c',
  code_verifier: 'v',
  redirect_uri: 'http://page/ui/',
} as const;

/** An issuer whose token endpoint answers as given. */
async function start(t: TestContext, answerToken: RequestListener) {
  const server = createServer((request, response) => {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    if (request.url === '/token') return answerToken(request, response);
    const paths = { authorization_endpoint: '/auth', token_endpoint: '/token', jwks_uri: '/jwks' };
    const document = Object.fromEntries(Object.entries(paths).map(([name, path]) => [name, `${url}${path}`]));
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ issuer: url, ...document }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { issuer, signIn: new PageSignIn({ issuers: [issuer], clientId: 'page', now: Date.now }) };
}

const answer =
  (status: number, body: unknown): RequestListener =>
  (_request, response) =>
    void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));

test('page sign-in: a code is redeemed with the client of the page, and only tokens are returned', async (t) => {
  let sent = '';
  const { issuer, signIn } = await start(t, (request, response) => {
    request.on('data', (chunk) => {
      sent += String(chunk);
    });
    const tokens = { access_token: 'a', refresh_token: 'r', expires_in: 60, id_token: 'i', scope: 's' };
    request.on('end', () => answer(200, tokens)(request, response));
  });
  assert.deepEqual(await signIn.redeem(issuer, GRANT), { access_token: 'a', refresh_token: 'r', expires_in: 60 });
  assert.deepEqual(Object.fromEntries(new URLSearchParams(sent)), { ...GRANT, client_id: 'page' });
  assert.equal(await signIn.authorizationEndpoint(issuer), `${issuer}/auth`);
});

test('page sign-in: an issuer that is not configured is not asked', async (t) => {
  const { signIn } = await start(t, answer(200, { access_token: 'a' }));
  await assert.rejects(signIn.redeem('http://127.0.0.1:9', GRANT), { code: 'bad-token' });
});

test('page sign-in: a refused code is reported with the reason of the issuer', async (t) => {
  const refusal = { error: 'invalid_grant', error_description: 'grant request is invalid' };
  const { issuer, signIn } = await start(t, answer(400, refusal));
  await assert.rejects(signIn.redeem(issuer, GRANT), { code: 'bad-token', message: /grant request is invalid/ });
});

for (const [name, listener] of [
  ['an error', answer(502, 'bad gateway')],
  ['no token', answer(200, { token_type: 'Bearer' })],
  ['text', (_, response) => void response.end('<h1>hello</h1>')],
  ['nothing', (request) => void request.socket.destroy()],
] as const satisfies readonly (readonly [string, RequestListener])[]) {
  test(`page sign-in: a token endpoint that answers with ${name} counts as unavailable`, async (t) => {
    const { issuer, signIn } = await start(t, listener);
    await assert.rejects(signIn.redeem(issuer, GRANT), { code: 'issuer-unavailable' });
  });
}

const DEVICE = { grant_type: DEVICE_CODE_GRANT, device_code: 'd' } as const;

test('page sign-in: a device code is pending until the user has answered, and other errors end it', async (t) => {
  const answers = [answer(400, { error: 'authorization_pending' }), answer(400, { error: 'slow_down' })];
  const { issuer, signIn } = await start(t, (request, response) =>
    (answers.shift() ?? answer(400, { error: 'access_denied' }))(request, response),
  );
  assert.deepEqual(await signIn.redeem(issuer, DEVICE), { pending: 'authorization_pending' });
  assert.deepEqual(await signIn.redeem(issuer, DEVICE), { pending: 'slow_down' });
  await assert.rejects(signIn.redeem(issuer, DEVICE), /access_denied/);
});

test('page sign-in: an issuer without device codes does not offer them', async (t) => {
  const { issuer, signIn } = await start(t, answer(200, {}));
  assert.equal(await signIn.offersDeviceCode(issuer), false);
  await assert.rejects(signIn.startDevice(issuer, 'openid'), { code: 'issuer-unavailable' });
});
