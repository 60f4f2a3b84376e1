import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import Fastify, { type FastifyInstance } from 'fastify';
import { startIssuer } from '../../../test/support/issuer.ts';
import { ALICE, BOB } from '../../../test/support/issuer-users.ts';
import { createWorker } from '../../federation/index.ts';
import { NAME, openScene, order } from '../../federation/worker/workers.fixture.ts';
import { AccessTokenSource, createAuthenticator, createTokenVerifier, findGrant } from '../../identity/index.ts';
import { Secret } from '../../lib/secret.ts';
import { createService } from '../../services/index.ts';
import { body, alice as hers } from '../../services/services.fixture.ts';
import { acceptAnyBody } from '../body.ts';
import { answerError } from '../errors.ts';
import { logRequests } from '../server.ts';
import { federationTokenRoutes } from './federation-token.ts';

/** A manager with this one route, whose users come from a real issuer. */
async function openManager() {
  const scene = openScene();
  scene.clock.now = Date.now();
  const issuer = await startIssuer();
  const verifier = createTokenVerifier({ issuers: [issuer.url], groups: [], usersAdmin: [] });
  const authenticator = createAuthenticator({
    admin: { username: 'admin', password: new Secret('password') },
    oidc: verifier,
  });
  const log = { info: () => undefined, warn: () => undefined };
  const { catalog } = scene;
  const tokenSource = new AccessTokenSource({
    vault: catalog,
    issuers: [issuer.url],
    verifier,
    client: { id: 'oscar' },
    log,
  });
  const app: FastifyInstance = Fastify();
  acceptAnyBody(app);
  app.setErrorHandler(answerError);
  logRequests(app);
  federationTokenRoutes(app, { authenticator, catalog, tokenSource });
  const endpoint = await app.listen({ host: '127.0.0.1', port: 0 });
  const { refreshToken } = await issuer.tokensFor(ALICE);

  return {
    issuer,
    scene,
    refreshToken,
    /** Hers, with her refresh token. */
    create: (more: Record<string, unknown> = {}) => {
      const environment = { secrets: { refresh_token: refreshToken } };
      return createService(hers, body({ federation: { topology: 'star' }, environment, ...more }), catalog);
    },
    async revoke(authorization: string | undefined, name = NAME) {
      const headers = authorization === undefined ? {} : { authorization };
      const answer = await fetch(`${endpoint}/system/federation/${name}/token`, { method: 'DELETE', headers });
      return { status: answer.status, text: await answer.text() };
    },
    as: async (user: typeof ALICE) => `Bearer ${(await issuer.tokensFor(user)).accessToken}`,
    async state() {
      const record = await catalog.services.get(NAME);
      return record && (await findGrant(record.service, catalog))?.grant.state;
    },
    async [Symbol.asyncDispose]() {
      await app.close();
      await issuer.stop();
      await scene[Symbol.asyncDispose]();
    },
  };
}

const BASIC = `Basic ${btoa('admin:password')}`;

describe('DELETE /system/federation/{name}/token', () => {
  test('of the owner revokes the refresh token and ends the grant: 204, and again 204', async () => {
    await using manager = await openManager();
    await manager.create();
    const alice = await manager.as(ALICE);
    assert.deepEqual(await manager.revoke(alice), { status: 204, text: '' });
    assert.equal(await manager.state(), 'ended');
    await assert.rejects(manager.issuer.refresh(manager.refreshToken), /invalid_grant/);
    assert.equal((await manager.revoke(alice)).status, 204);
  });

  test('is the administrator’s too', async () => {
    await using manager = await openManager();
    await manager.create();
    assert.equal((await manager.revoke(BASIC)).status, 204);
    assert.equal(await manager.state(), 'ended');
  });

  test('federation token: 401 without credentials, 403 for others who see the service, 404 for users who do not', async () => {
    await using manager = await openManager();
    const { service } = await manager.create();
    const bob = await manager.as(BOB);
    assert.equal((await manager.revoke(undefined)).status, 401);
    assert.equal((await manager.revoke(bob)).status, 404);
    assert.equal((await manager.revoke(bob, 'none')).status, 404);
    assert.equal((await manager.revoke(`Bearer ${service.token.reveal()}`)).status, 403);
    assert.equal(await manager.state(), 'unproven');
  });

  test('of a service that is public is 403 for other users', async () => {
    await using manager = await openManager();
    await manager.create({ visibility: 'public' });
    assert.equal((await manager.revoke(await manager.as(BOB))).status, 403);
    assert.equal(await manager.state(), 'unproven');
  });

  test('at a worker is 409, and names the coordinator', async () => {
    await using manager = await openManager();
    await createWorker(hers, order(), manager.scene.workers);
    const { status, text } = await manager.revoke(await manager.as(ALICE));
    assert.equal(status, 409);
    assert.match(text, /"origin" at https:\/\/a\.example/);
  });

  test('while the issuer is away is 503, and nothing has changed', async () => {
    await using manager = await openManager();
    await manager.create();
    const alice = await manager.as(ALICE);
    await manager.revoke(alice, 'none');
    await manager.issuer.stop();
    const { status, text } = await manager.revoke(alice);
    assert.equal(status, 503);
    assert.match(text, /does not answer/);
    assert.equal(await manager.state(), 'unproven');
  });
});
