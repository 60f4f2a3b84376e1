import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { type Issuer, startIssuer } from '../../../test/support/issuer.ts';
import { ALICE, BOB, CAROL } from '../../../test/support/issuer-users.ts';
import { IdentityError } from '../errors.ts';
import { createTokenVerifier, type TokenVerifierOptions } from './token-verifier.ts';

const MINUTE = 60_000;
const isRefusal = (code: string) => (error: unknown) => error instanceof IdentityError && error.code === code;

suite('token verifier, with groups in the tokens', () => {
  let issuer: Issuer;
  before(async () => {
    issuer = await startIssuer();
  });
  after(() => issuer.stop());

  const oidc = (more: Partial<TokenVerifierOptions> = {}) =>
    createTokenVerifier({ issuers: [issuer.url], groups: ['/oscar'], usersAdmin: [], ...more });

  test('an access token gives its user', async () => {
    const { accessToken } = await issuer.tokensFor(ALICE);
    assert.deepEqual(await oidc().verify(accessToken), {
      kind: 'user',
      uid: ALICE.sub,
      issuer: issuer.url,
      subject: ALICE.sub,
      name: 'Alice',
      groups: ['/oscar', '/alices'],
      operator: false,
    });
  });

  test('a user in USERS_ADMIN is an operator', async () => {
    const { accessToken } = await issuer.tokensFor(BOB);
    assert.equal((await oidc({ usersAdmin: [BOB.sub] }).verify(accessToken)).operator, true);
  });

  test('a user in no admitted group is rejected', async () => {
    const { accessToken } = await issuer.tokensFor(CAROL);
    await assert.rejects(oidc().verify(accessToken), isRefusal('not-in-group'));
  });

  test('groups are compared exactly and case-sensitively', async () => {
    const { accessToken } = await issuer.tokensFor(ALICE);
    await assert.rejects(oidc({ groups: ['/Oscar', '/osc', 'oscar'] }).verify(accessToken), isRefusal('not-in-group'));
  });

  test('an empty list of groups admits every user', async () => {
    const { accessToken } = await issuer.tokensFor(CAROL);
    assert.deepEqual((await oidc({ groups: [] }).verify(accessToken)).groups, ['/carols']);
  });

  test('the operator may name the claim with the groups', async () => {
    const token = await issuer.sign({ sub: 'x', exp: Date.now() / 1000 + 60, realm: { roles: ['/oscar'] } });
    assert.deepEqual((await oidc({ groupsClaim: 'realm.roles' }).verify(token)).groups, ['/oscar']);
  });

  test('a user without a name is shown by the uid', async () => {
    const token = await issuer.sign({ sub: 'x', exp: Date.now() / 1000 + 60, group_membership: ['/oscar'] });
    assert.equal((await oidc().verify(token)).name, 'x');
  });

  test('the returned user is immutable', async () => {
    const user = await oidc().verify((await issuer.tokensFor(ALICE)).accessToken);
    assert.ok(Object.isFrozen(user) && Object.isFrozen(user.groups));
  });

  test('concurrent verifications return the right users', async () => {
    const verifier = oidc();
    const people = [ALICE, BOB, ALICE, BOB, ALICE, BOB];
    const tokens = await Promise.all(people.map((person) => issuer.tokensFor(person)));
    const users = await Promise.all(tokens.map(({ accessToken }) => verifier.verify(accessToken)));
    assert.deepEqual(
      users.map(({ uid }) => uid),
      people.map(({ sub }) => sub),
    );
  });

  test('the issuer is asked for its metadata and keys once, and never for userinfo', async () => {
    const asked = { ...issuer.requests };
    const verifier = oidc();
    const tokens = await Promise.all([ALICE, BOB].map((person) => issuer.tokensFor(person)));
    for (const { accessToken } of [...tokens, ...tokens]) await verifier.verify(accessToken);
    assert.equal(issuer.requests.discovery - asked.discovery, 1);
    assert.equal(issuer.requests.jwks - asked.jwks, 1);
    assert.equal(issuer.requests.userinfo - asked.userinfo, 0);
  });

  test('the issuer gets no request before it is needed', () => {
    const asked = { ...issuer.requests };
    oidc();
    assert.deepEqual(issuer.requests, asked);
  });
});

suite('token verifier, without groups in the tokens', () => {
  let issuer: Issuer;
  before(async () => {
    issuer = await startIssuer({ accessTokenClaims: [] });
  });
  after(() => issuer.stop());

  const oidc = (more: Partial<TokenVerifierOptions> = {}) =>
    createTokenVerifier({ issuers: [issuer.url], groups: ['/oscar'], usersAdmin: [], ...more });

  test('groups and name come from userinfo', async () => {
    const user = await oidc().verify((await issuer.tokensFor(ALICE)).accessToken);
    assert.deepEqual([user.name, user.groups], ['Alice', ['/oscar', '/alices']]);
  });

  test('userinfo is not requested if groups are not restricted', async () => {
    const asked = issuer.requests.userinfo;
    const user = await oidc({ groups: [] }).verify((await issuer.tokensFor(ALICE)).accessToken);
    assert.deepEqual([user.name, user.groups], [ALICE.sub, []]);
    assert.equal(issuer.requests.userinfo, asked);
  });

  test('a hundred first requests with one token ask userinfo once, and later ones not at all', async () => {
    const asked = issuer.requests.userinfo;
    const verifier = oidc();
    const { accessToken } = await issuer.tokensFor(ALICE);
    const users = await Promise.all(Array.from({ length: 100 }, () => verifier.verify(accessToken)));
    assert.equal(new Set(users).size, 1);
    await verifier.verify(accessToken);
    assert.equal(issuer.requests.userinfo - asked, 1);
  });

  test('a rejection is cached for seconds, not for the lifetime of the token', async () => {
    const asked = issuer.requests.userinfo;
    let now = Date.now();
    const verifier = oidc({ now: () => now });
    const { accessToken } = await issuer.tokensFor(CAROL);
    await assert.rejects(verifier.verify(accessToken), isRefusal('not-in-group'));
    await assert.rejects(verifier.verify(accessToken), isRefusal('not-in-group'));
    assert.equal(issuer.requests.userinfo - asked, 1);

    now += 10_000;
    await assert.rejects(verifier.verify(accessToken), isRefusal('not-in-group'));
    assert.equal(issuer.requests.userinfo - asked, 2);
  });

  const answers = [
    {
      name: 'is about another user',
      status: 200,
      body: JSON.stringify({ sub: BOB.sub, ...ALICE.claims }),
      code: 'bad-token',
    },
    { name: 'rejects the token', status: 401, body: '', code: 'bad-token' },
    { name: 'wants another scope', status: 403, body: '', code: 'bad-token' },
    { name: 'is broken', status: 500, body: '', code: 'issuer-unavailable' },
    { name: 'has no subject', status: 200, body: '{"group_membership":["/oscar"]}', code: 'issuer-unavailable' },
    { name: 'is not JSON', status: 200, body: '<html>', code: 'issuer-unavailable' },
    { name: 'is too long', status: 200, body: 'x'.repeat(1024 * 1024), code: 'issuer-unavailable' },
    {
      name: 'has no groups either',
      status: 200,
      body: JSON.stringify({ sub: ALICE.sub }),
      code: 'not-in-group',
    },
  ];
  for (const { name, status, body, code } of answers) {
    test(`a userinfo answer that ${name} gives ${code}`, async (t) => {
      t.after(issuer.answerInstead('userinfo', (_request, response) => response.writeHead(status).end(body)));
      const { accessToken } = await issuer.tokensFor(ALICE);
      await assert.rejects(oidc().verify(accessToken), isRefusal(code));
    });
  }

  test('userinfo is requested again after an outage', async (t) => {
    let now = Date.now();
    const verifier = oidc({ now: () => now });
    const { accessToken } = await issuer.tokensFor(ALICE);
    const mend = issuer.answerInstead('userinfo', (request) => request.destroy());
    t.after(mend);
    await assert.rejects(verifier.verify(accessToken), isRefusal('issuer-unavailable'));
    mend();
    await assert.rejects(verifier.verify(accessToken), isRefusal('issuer-unavailable'));
    now += 1_000;
    assert.equal((await verifier.verify(accessToken)).uid, ALICE.sub);
  });
});

test('token verifier: EGI is recognised by its address, and its groups by their URN', async () => {
  const entitlements = ['urn:mace:egi.eu:group:vo.Example.eu:role=member#aai.egi.eu'];
  const users = [{ ...ALICE, claims: { name: 'Alice', entitlements } }];
  await using issuer = await startIssuer({ path: '/auth/realms/egi', users, accessTokenClaims: [] });
  const oidc = createTokenVerifier({ issuers: [issuer.url], groups: ['vo.example.eu'], usersAdmin: [] });
  assert.deepEqual((await oidc.verify((await issuer.tokensFor(ALICE)).accessToken)).groups, ['vo.example.eu']);
});

suite('token verifier: a verified token', () => {
  test('is rejected once it has expired', async () => {
    await using issuer = await startIssuer({ accessTokenTtl: 600 });
    let now = Date.now();
    const oidc = createTokenVerifier({ issuers: [issuer.url], groups: [], usersAdmin: [], now: () => now });
    const { accessToken } = await issuer.tokensFor(ALICE);
    await oidc.verify(accessToken);
    now += 9 * MINUTE;
    await oidc.verify(accessToken);
    now += 2 * MINUTE;
    await assert.rejects(
      oidc.verify(accessToken),
      (error) => isRefusal('bad-token')(error) && /expired/.test(String(error)),
    );
  });

  test('is verified again after an hour, even if it lives longer', async () => {
    const day = 24 * 60 * 60;
    await using issuer = await startIssuer({ accessTokenTtl: day, accessTokenClaims: [] });
    let now = Date.now();
    const oidc = createTokenVerifier({ issuers: [issuer.url], groups: ['/oscar'], usersAdmin: [], now: () => now });
    const { accessToken } = await issuer.tokensFor(ALICE);
    await oidc.verify(accessToken);
    now += 59 * MINUTE;
    await oidc.verify(accessToken);
    assert.equal(issuer.requests.userinfo, 1);
    now += MINUTE;
    await oidc.verify(accessToken);
    assert.equal(issuer.requests.userinfo, 2);
  });

  test('is accepted while its issuer is down', async () => {
    await using issuer = await startIssuer();
    const oidc = createTokenVerifier({ issuers: [issuer.url], groups: ['/oscar'], usersAdmin: [] });
    const { accessToken } = await issuer.tokensFor(ALICE);
    await oidc.verify(accessToken);
    await issuer.stop();
    assert.equal((await oidc.verify(accessToken)).uid, ALICE.sub);
  });
});

suite('token verifier: key rotation of the issuer', () => {
  test('tokens of a new key are accepted as soon as the keys may be fetched again', async (t) => {
    t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
    await using issuer = await startIssuer();
    const oidc = createTokenVerifier({ issuers: [issuer.url], groups: [], usersAdmin: [] });
    await oidc.verify((await issuer.tokensFor(ALICE)).accessToken);

    await issuer.rotateKeys();
    const { accessToken } = await issuer.tokensFor(ALICE);
    await assert.rejects(oidc.verify(accessToken), isRefusal('bad-token'));
    assert.equal(issuer.requests.jwks, 1, 'an unknown key is not fetched so soon');

    t.mock.timers.tick(10_000);
    assert.equal((await oidc.verify(accessToken)).uid, ALICE.sub);
    assert.equal(issuer.requests.jwks, 2);
  });

  test('tokens of an old key are accepted while it is published, even if they do not name it', async () => {
    await using issuer = await startIssuer();
    const exp = Date.now() / 1000 + 60;
    const [old, oldUnnamed] = [
      await issuer.sign({ sub: 'a', exp }),
      await issuer.sign({ sub: 'b', exp }, { alg: 'RS256' }),
    ];
    await issuer.rotateKeys({ keepOld: true });
    const oidc = createTokenVerifier({ issuers: [issuer.url], groups: [], usersAdmin: [] });
    assert.equal((await oidc.verify(old)).uid, 'a');
    assert.equal((await oidc.verify(oldUnnamed)).uid, 'b');
  });
});
