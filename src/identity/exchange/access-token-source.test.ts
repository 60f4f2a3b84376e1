import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { decodeJwt } from 'jose';
import { startIssuer } from '../../../test/support/issuer.ts';
import { ALICE, BOB } from '../../../test/support/issuer-users.ts';
import type { Secret } from '../../lib/secret.ts';
import { ADMIN, submit } from '../grants/vault.fixture.ts';
import { createTokenVerifier } from '../oidc/token-verifier.ts';
import type { AccessTokenSourceOptions } from './access-token-source.ts';
import { grantCondition } from './condition.ts';
import { asUser, auditRecords, HOUR, openExchange, toService } from './exchange.fixture.ts';

const S1 = toService('s1');

/** Asserts that the issuer still accepts the refresh token: it has not seen a token twice, and has not revoked the lineage. */
async function assertAlive(exchange: Awaited<ReturnType<typeof openExchange>>, service = 's1'): Promise<void> {
  const { token } = await exchange.grant(service);
  await exchange.issuer.refresh(token?.reveal() ?? 'none');
}

describe('access token of the owner', () => {
  test('is exchanged for the refresh token, and the new refresh token is stored', async () => {
    await using exchange = await openExchange();
    const brought = await exchange.submit('s1');
    const token = await exchange.tokens.getToken(S1, 'offer');
    const { sub, iss } = decodeJwt(token.reveal());
    assert.deepEqual([sub, iss], [ALICE.sub, exchange.issuer.url]);
    const { grant, token: kept } = await exchange.grant('s1');
    assert.deepEqual([grant.state, grant.subject, grant.turn], ['proven', ALICE.sub, undefined]);
    assert.equal(grant.lineage.length, 2);
    assert.notEqual(kept?.reveal(), brought);
    await assertAlive(exchange);
  });

  test('is cached until half a minute before it expires', async () => {
    await using exchange = await openExchange({ accessTokenTtl: 3600 });
    await exchange.submit('s1');
    const asked = exchange.issuer.requests.token;
    const first = await exchange.tokens.getToken(S1, 'one');
    exchange.wait(HOUR - 40_000);
    assert.ok((await exchange.tokens.getToken(S1, 'two')).equals(first));
    exchange.wait(11_000);
    assert.ok(!(await exchange.tokens.getToken(S1, 'three')).equals(first));
    assert.equal(exchange.issuer.requests.token - asked, 2);
  });

  test('with a lifetime of seconds is requested for each use, and the lineage continues', async () => {
    await using exchange = await openExchange({ accessTokenTtl: 5 });
    await exchange.submit('s1');
    for (let use = 0; use < 5; use++) await exchange.tokens.getToken(S1, 'offer');
    assert.equal((await exchange.grant('s1')).grant.lineage.length, 6);
    await assertAlive(exchange);
  });

  test('is requested once for two hundred concurrent callers', async () => {
    await using exchange = await openExchange();
    await exchange.submit('s1');
    await exchange.tokens.getToken(S1, 'before');
    exchange.wait(HOUR);
    const asked = exchange.issuer.requests.token;
    const tokens = await Promise.all(Array.from({ length: 200 }, () => exchange.tokens.getToken(S1, 'offer')));
    assert.equal(new Set(tokens.map((token) => token.reveal())).size, 1);
    assert.equal(exchange.issuer.requests.token - asked, 1);
    assert.equal(auditRecords(exchange.lines).length, 201);
  });

  test('is shared by all services of a grant', async () => {
    await using exchange = await openExchange();
    const brought = await exchange.submit('s1');
    await submit(brought, asUser(ALICE, exchange.issuer.url), 's2', exchange.vault);
    const [one, other] = await Promise.all([
      exchange.tokens.getToken(S1, 'a'),
      exchange.tokens.getToken(toService('s2'), 'b'),
    ]);
    assert.ok(one.equals(other));
    // The token that the user knows is spent by now, but it still identifies the grant.
    await submit(brought, asUser(ALICE, exchange.issuer.url), 's3', exchange.vault);
    exchange.wait(HOUR);
    await exchange.tokens.getToken(toService('s3'), 'c');
    assert.equal((await exchange.grant('s1')).grant.lineage.length, 3);
    await assertAlive(exchange);
  });

  test('works with issuers that do not rotate refresh tokens, and with a client secret', async () => {
    await using exchange = await openExchange({ rotateRefreshTokens: false, clientSecret: 'a long secret: %/+&' });
    const brought = await exchange.submit('s1');
    await exchange.tokens.getToken(S1, 'offer');
    exchange.wait(HOUR);
    await exchange.tokens.getToken(S1, 'offer');
    const { grant, token } = await exchange.grant('s1');
    assert.ok(token?.equals(brought));
    assert.deepEqual([grant.lineage.length, grant.turn, grant.state], [1, undefined, 'proven']);
  });

  test('may be opaque: then the ID token identifies the user', async () => {
    await using exchange = await openExchange({ accessTokenFormat: 'opaque' });
    await exchange.submit('s1');
    await exchange.submit('s2', BOB, ALICE);
    assert.ok((await exchange.tokens.getToken(S1, 'offer')).reveal().length > 20);
    assert.equal((await exchange.grant('s1')).grant.subject, ALICE.sub);
    await assert.rejects(exchange.tokens.getToken(toService('s2', BOB), 'offer'), { code: 'credentials-expired' });
  });
});

for (const accessTokenFormat of ['jwt', 'opaque'] as const) {
  test(`token exchange: a user of an issuer with an alias is not the same sub of the first issuer (${accessTokenFormat})`, async () => {
    await using first = await startIssuer();
    await using exchange = await openExchange({ accessTokenFormat });
    const issuers = { issuers: [first.url, exchange.issuer.url], aliases: new Map([[exchange.issuer.url, 'xx']]) };
    const verifier = createTokenVerifier({ ...issuers, groups: [], usersAdmin: [] });
    const tokens = exchange.replica({ ...issuers, verifier });
    const submitAs = async (uid: string, service: string) => {
      const { refreshToken } = await exchange.issuer.tokensFor(ALICE);
      const submitter = { kind: 'user', uid, issuer: exchange.issuer.url } as const;
      await submit(refreshToken, submitter, service, exchange.vault);
      return { uid: service, owner: uid };
    };
    assert.ok(await tokens.getToken(await submitAs(`xx~${ALICE.sub}`, 's1'), 'offer'));
    await assert.rejects(tokens.getToken(await submitAs(ALICE.sub, 's2'), 'offer'), { code: 'credentials-expired' });
  });
}

describe('no access token', () => {
  test('without a grant, or with the grant of another user', async () => {
    await using exchange = await openExchange();
    await assert.rejects(exchange.tokens.getToken(S1, 'offer'), { code: 'no-grant' });
    await exchange.submit('s1');
    await assert.rejects(exchange.tokens.getToken(toService('s1', BOB), 'offer'), { code: 'no-grant' });
    assert.deepEqual(auditRecords(exchange.lines), []);
  });

  test('from a token that was sent with Basic credentials', async () => {
    await using exchange = await openExchange();
    const { refreshToken } = await exchange.issuer.tokensFor(ALICE);
    await submit(refreshToken, ADMIN, 's1', exchange.vault);
    await assert.rejects(exchange.tokens.getToken(S1, 'offer'), { code: 'local-grant' });
    await exchange.issuer.refresh(refreshToken);
  });

  test("from another user's refresh token, which ends the grant before any token is used", async () => {
    await using exchange = await openExchange();
    await exchange.submit('s1', ALICE, BOB);
    await assert.rejects(exchange.tokens.getToken(S1, 'offer'), {
      code: 'credentials-expired',
      message: /another user's token/,
    });
    const { grant, token } = await exchange.grant('s1');
    assert.deepEqual([grant.state, grant.reason, token], ['ended', "another user's token", undefined]);
    assert.deepEqual(auditRecords(exchange.lines), []);
  });

  for (const bad of ['dummy-token', 'a.b.c', 'eyJhbGciOiJub25lIn0.e30.', ' ', '"\u{1f511}\r\n&client_id=x']) {
    test(`from ${JSON.stringify(bad)}: the grant ends, and a new token replaces it`, async () => {
      await using exchange = await openExchange();
      await submit(bad, asUser(ALICE), 's1', exchange.vault);
      await assert.rejects(exchange.tokens.getToken(S1, 'offer'), { code: 'credentials-expired', message: /refuses/ });
      const asked = exchange.issuer.requests.token;
      await assert.rejects(exchange.tokens.getToken(S1, 'offer'), { code: 'credentials-expired' });
      assert.equal(exchange.issuer.requests.token, asked, 'the issuer is not asked again');
      await exchange.submit('s1');
      await exchange.tokens.getToken(S1, 'offer');
    });
  }

  test('from a refresh token that was revoked or used elsewhere', async () => {
    await using exchange = await openExchange();
    const brought = await exchange.submit('s1');
    await exchange.issuer.refresh(brought);
    await assert.rejects(exchange.tokens.getToken(S1, 'offer'), { code: 'credentials-expired' });
    assert.equal((await exchange.grant('s1')).grant.state, 'ended');
  });

  test('while the client is not configured', async () => {
    await using exchange = await openExchange();
    await exchange.submit('s1');
    const unset = exchange.replica({ client: undefined });
    await assert.rejects(unset.getToken(S1, 'offer'), { code: 'exchange-refused', message: /OIDC_CLIENT_ID/ });
    const wrong = exchange.replica({ client: { id: 'unknown' } });
    await assert.rejects(wrong.getToken(S1, 'offer'), { code: 'exchange-refused', message: /invalid_client/ });
    await assert.rejects(wrong.getToken(S1, 'offer'), { code: 'exchange-refused' });
    assert.equal(exchange.issuer.requests.token, 2, 'one login, one refusal: the refusal is cached');
    await exchange.tokens.getToken(S1, 'offer');
  });

  test('and the status of the service shows why, until an exchange succeeds', async () => {
    await using exchange = await openExchange();
    await exchange.submit('s1');
    const condition = async () => grantCondition(S1, exchange.vault, 30);
    const refused = async (options: Partial<AccessTokenSourceOptions>, reason: RegExp) => {
      await assert.rejects(exchange.replica(options).getToken(S1, 'offer', { audience: 'b' }), {
        code: 'exchange-refused',
      });
      const { type, reason: told = '', since } = (await condition()) ?? {};
      assert.deepEqual([type, typeof since], ['CredentialsRefused', 'string']);
      assert.match(told, reason);
    };
    await refused({ client: undefined }, /set OIDC_CLIENT_ID/);
    await refused({ client: { id: 'unknown' } }, /invalid_client.*OIDC_CLIENT_SECRET/);
    await refused({ issuers: [] }, /no longer accepted here/);
    await refused({ issuers: [], narrow: 'true', client: undefined }, /no longer accepted here/);
    await exchange.tokens.getToken(S1, 'offer');
    assert.equal(await condition(), undefined);
  });

  test('at an issuer that is not configured, even if the token names it', async () => {
    await using exchange = await openExchange();
    await using other = await openExchange();
    const forged = await other.issuer.sign({ azp: 'oscar' });
    await submit(forged, asUser(ALICE), 's1', exchange.vault);
    await assert.rejects(exchange.tokens.getToken(S1, 'offer'), { code: 'credentials-expired' });
    assert.deepEqual([other.issuer.requests.discovery, other.issuer.requests.token], [0, 0]);
    const { refreshToken } = await other.issuer.tokensFor(ALICE);
    await submit(refreshToken, asUser(ALICE, other.issuer.url), 's2', exchange.vault);
    await assert.rejects(exchange.tokens.getToken(toService('s2'), 'offer'), {
      code: 'exchange-refused',
      message: /OIDC_ISSUERS/,
    });
    await other.issuer.refresh(refreshToken);
  });
});

describe('access token for one audience', () => {
  const narrow = { exchangeAudiences: ['cluster-b', 'cluster-c'], source: { narrow: 'true' } } as const;

  test('is valid for that audience only, and cached per audience', async () => {
    await using exchange = await openExchange(narrow);
    await exchange.submit('s1');
    const asked = exchange.issuer.requests.token;
    const tokenFor = async (audience: string) => (await exchange.tokens.getToken(S1, 'offer', { audience })).reveal();
    const tokens = [await tokenFor('cluster-b'), await tokenFor('cluster-c'), await tokenFor('cluster-b')];
    assert.deepEqual(
      tokens.map((token) => [decodeJwt(token).aud, decodeJwt(token).sub]),
      ['cluster-b', 'cluster-c', 'cluster-b'].map((aud) => [aud, ALICE.sub]),
    );
    assert.equal(tokens[0], tokens[2]);
    assert.equal(exchange.issuer.requests.token - asked, 3, 'one exchange, two narrowings');
    assert.equal(decodeJwt((await exchange.tokens.getToken(S1, 'wide')).reveal()).aud, 'oscar');
  });

  test('is not replaced by a wider token if the issuer refuses it', async () => {
    await using exchange = await openExchange(narrow);
    await exchange.submit('s1');
    const wanted = exchange.tokens.getToken(S1, 'offer', { audience: 'cluster-x' });
    await assert.rejects(wanted, { code: 'exchange-refused', message: /"cluster-x" alone.*invalid_target/ });
    assert.deepEqual(auditRecords(exchange.lines), []);
    await exchange.tokens.getToken(S1, 'offer', { audience: 'cluster-b' });
  });

  const aud = (token: Secret) => decodeJwt(token.reveal()).aud;

  test('with auto is narrowed where the issuer can, otherwise not, and the grant stores why', async () => {
    await using able = await openExchange({ exchangeAudiences: ['cluster-b'] });
    await using unable = await openExchange();
    await using off = await openExchange({ exchangeAudiences: ['cluster-b'], source: { narrow: 'false' } });
    const cases = [
      [able, 'cluster-b', 'cluster-b', undefined],
      [able, 'cluster-x', 'oscar', /does not issue a token for "cluster-x" alone .*invalid_target/],
      [unable, 'cluster-b', 'oscar', /does not support token exchange \(RFC 8693\)$/],
      [off, 'cluster-b', 'oscar', /^OIDC_TOKEN_EXCHANGE is false$/],
    ] as const;
    for (const exchange of [able, unable, off]) await exchange.submit('s1');
    for (const [exchange, audience, expected, reason] of cases) {
      for (const why of ['one', 'two']) {
        assert.equal(aud(await exchange.tokens.getToken(S1, why, { audience })), expected);
      }
      const { grant } = await exchange.grant('s1');
      if (reason) assert.match(grant.wide?.[audience] ?? '', reason);
      else assert.equal(grant.wide?.[audience], undefined);
    }
    const said = (lines: string[]) => lines.filter((line) => line.includes('not narrowed')).length;
    assert.deepEqual([said(able.lines), said(unable.lines), said(off.lines)], [1, 1, 1], 'each reason is logged once');
  });

  test('with true is never wider: if the issuer cannot narrow it, there is none', async () => {
    await using exchange = await openExchange({ source: { narrow: 'true' } });
    await exchange.submit('s1');
    await assert.rejects(exchange.tokens.getToken(S1, 'offer', { audience: 'cluster-b' }), {
      code: 'exchange-refused',
      message: /no access token is sent to "cluster-b" .* does not support token exchange/,
    });
  });

  test('is not taken from an issuer that ignores the audience', async () => {
    await using exchange = await openExchange({ exchangeAudiences: ['cluster-b'] });
    await exchange.submit('s1');
    const broad = await exchange.tokens.getToken(S1, 'wide');
    const restore = exchange.issuer.answerInstead('token', (_request, response) => {
      const answer = { access_token: broad.reveal(), issued_token_type: 'x', token_type: 'Bearer', expires_in: 60 };
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
    });
    assert.equal(aud(await exchange.tokens.getToken(S1, 'offer', { audience: 'cluster-b' })), 'oscar');
    assert.ok((await exchange.grant('s1')).grant.wide?.['cluster-b']);
    restore();
    exchange.wait(HOUR / 2);
    assert.equal(aud(await exchange.tokens.getToken(S1, 'offer', { audience: 'cluster-b' })), 'cluster-b');
    assert.equal((await exchange.grant('s1')).grant.wide?.['cluster-b'], undefined);
  });

  test('is not widened while the issuer is down', async () => {
    await using exchange = await openExchange({ exchangeAudiences: ['cluster-b'] });
    await exchange.submit('s1');
    await exchange.tokens.getToken(S1, 'wide');
    await exchange.issuer.stop();
    await assert.rejects(exchange.tokens.getToken(S1, 'offer', { audience: 'cluster-b' }), {
      code: 'issuer-unavailable',
    });
    assert.equal((await exchange.grant('s1')).grant.wide, undefined);
  });
});

describe('revocation of a grant', () => {
  test('revokes the refresh token at its issuer and ends the grant', async () => {
    await using exchange = await openExchange();
    await exchange.submit('s1');
    await exchange.tokens.getToken(S1, 'offer');
    const { token } = await exchange.grant('s1');
    await exchange.tokens.revokeGrant(S1);
    await assert.rejects(exchange.issuer.refresh(token?.reveal() ?? ''), /invalid_grant/);
    const { grant, token: none } = await exchange.grant('s1');
    assert.deepEqual([grant.state, grant.reason, none], ['ended', 'revoked by its owner', undefined]);
    // The cached access token is not returned either, here and in other managers.
    await assert.rejects(exchange.tokens.getToken(S1, 'offer'), {
      code: 'credentials-expired',
      message: /revoked by its owner/,
    });
    await exchange.tokens.revokeGrant(S1);
    await exchange.tokens.revokeGrant(toService('none'));
    assert.equal(exchange.issuer.requests.revocation, 1);
    assert.deepEqual(
      auditRecords(exchange.lines).map(({ why }) => why),
      ['offer', 'revoke'],
    );
  });

  test('fails without any change while the issuer is down', async () => {
    await using exchange = await openExchange();
    await exchange.submit('s1');
    await exchange.issuer.stop();
    await assert.rejects(exchange.tokens.revokeGrant(S1), { code: 'issuer-unavailable' });
    const { grant } = await exchange.grant('s1');
    assert.deepEqual([grant.state, grant.turn], ['unproven', undefined]);
    await exchange.issuer.start();
    await exchange.replica().revokeGrant(S1);
    assert.equal((await exchange.grant('s1')).grant.state, 'ended');
  });

  test('ends the grant even if the issuer refuses the revocation, or never saw the token', async () => {
    await using exchange = await openExchange();
    await exchange.submit('s1');
    await exchange.replica({ client: { id: 'unknown' } }).revokeGrant(S1);
    assert.equal((await exchange.grant('s1')).grant.state, 'ended');
    const asked = exchange.issuer.requests.revocation;
    await submit('hers', ADMIN, 's2', exchange.vault);
    await exchange.tokens.revokeGrant(toService('s2'));
    assert.equal((await exchange.grant('s2')).grant.state, 'ended');
    assert.equal(exchange.issuer.requests.revocation, asked);
  });
});

test('audit log: every use of a grant is recorded, and no token is logged', async () => {
  await using exchange = await openExchange({ exchangeAudiences: ['cluster-b'], source: { narrow: 'true' } });
  const seen = [await exchange.submit('s1')];
  for (const why of ['offer', 'again']) {
    seen.push((await exchange.tokens.getToken(S1, why)).reveal(), (await exchange.grant('s1')).token?.reveal() ?? '');
  }
  seen.push((await exchange.tokens.getToken(S1, 'narrow', { audience: 'cluster-b' })).reveal());
  seen.push('dummy-token-of-mallory');
  await submit('dummy-token-of-mallory', asUser(ALICE), 's2', exchange.vault);
  await assert.rejects(exchange.tokens.getToken(toService('s2'), 'offer'));
  // An issuer that echoes the token in an error and in an invalid answer.
  seen.push('echo-of-a-token');
  await submit('echo-of-a-token', asUser(ALICE), 's3', exchange.vault);
  for (const [status, body] of [
    [400, { error: 'odd echo-of-a-token', error_description: 'echo-of-a-token' }],
    [200, { access_token: 7, refresh_token: 'echo-of-a-token', token_type: 'echo-of-a-token' }],
    [500, { error: 'echo-of-a-token' }],
  ] as const) {
    exchange.wait(HOUR);
    const restore = exchange.issuer.answerInstead('token', (_request, response) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    });
    await assert.rejects(exchange.tokens.getToken(toService('s3'), 'offer'), (error: Error) => {
      assert.ok(!`${error.message} ${JSON.stringify(error)} ${error.stack}`.includes('echo-of-a-token'));
      return true;
    });
    restore();
  }
  await exchange.tokens.revokeGrant(S1);

  const log = exchange.lines.join('');
  for (const token of seen) assert.ok(!log.includes(token), `${token.slice(0, 12)}… is in the log`);
  const { grant } = await exchange.grant('s1');
  assert.deepEqual(
    auditRecords(exchange.lines).map(({ why, grant: id, owner, service }) => [why, id, owner, service]),
    ['offer', 'again', 'narrow', 'revoke'].map((why) => [why, grant.id, ALICE.sub, 's1']),
  );
});
