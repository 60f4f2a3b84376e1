import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { type Issuer, startIssuer } from '../../../test/support/issuer.ts';
import { ALICE, BOB, CAROL } from '../../../test/support/issuer-users.ts';
import { IdentityError } from '../errors.ts';
import { createTokenVerifier, type TokenVerifierOptions } from './token-verifier.ts';

const MINUTE = 60_000;
const isRefusal = (code: string) => (error: unknown) => error instanceof IdentityError && error.code === code;

suite('an issuer whose tokens carry groups', () => {
  let issuer: Issuer;
  before(async () => {
    issuer = await startIssuer();
  });
  after(() => issuer.stop());

  const oidc = (more: Partial<TokenVerifierOptions> = {}) =>
    createTokenVerifier({ issuers: [issuer.url], groups: ['/oscar'], usersAdmin: [], ...more });

  test('a user is known by an access token', async () => {
    const { accessToken } = await issuer.tokensFor(ALICE);
    assert.deepEqual(await oidc().verify(accessToken), {
      kind: 'user',
      uid: ALICE.sub,
      issuer: issuer.url,
      name: 'Alice',
      groups: ['/oscar', '/alices'],
      operator: false,
    });
  });

  test('a user who is listed is an operator', async () => {
    const { accessToken } = await issuer.tokensFor(BOB);
    assert.equal((await oidc({ usersAdmin: [BOB.sub] }).verify(accessToken)).operator, true);
  });

  test('a user of no admitted group stays out', async () => {
    const { accessToken } = await issuer.tokensFor(CAROL);
    await assert.rejects(oidc().verify(accessToken), isRefusal('not-in-group'));
  });

  test('groups are compared whole, in their letter case', async () => {
    const { accessToken } = await issuer.tokensFor(ALICE);
    await assert.rejects(oidc({ groups: ['/Oscar', '/osc', 'oscar'] }).verify(accessToken), isRefusal('not-in-group'));
  });

  test('no admitted groups admit every user', async () => {
    const { accessToken } = await issuer.tokensFor(CAROL);
    assert.deepEqual((await oidc({ groups: [] }).verify(accessToken)).groups, ['/carols']);
  });

  test('the operator may name the claim with the groups', async () => {
    const token = await issuer.sign({ sub: 'x', exp: Date.now() / 1000 + 60, realm: { roles: ['/oscar'] } });
    assert.deepEqual((await oidc({ groupsClaim: 'realm.roles' }).verify(token)).groups, ['/oscar']);
  });

  test('a user without a name is called by the uid', async () => {
    const token = await issuer.sign({ sub: 'x', exp: Date.now() / 1000 + 60, group_membership: ['/oscar'] });
    assert.equal((await oidc().verify(token)).name, 'x');
  });

  test('what is known of a user cannot be changed by one who was told', async () => {
    const user = await oidc().verify((await issuer.tokensFor(ALICE)).accessToken);
    assert.ok(Object.isFrozen(user) && Object.isFrozen(user.groups));
  });

  test('users at the same time do not become each other', async () => {
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

  test('an issuer is not asked anything before it is needed', () => {
    const asked = { ...issuer.requests };
    oidc();
    assert.deepEqual(issuer.requests, asked);
  });
});

suite('an issuer whose tokens are silent about groups', () => {
  let issuer: Issuer;
  before(async () => {
    issuer = await startIssuer({ accessTokenClaims: [] });
  });
  after(() => issuer.stop());

  const oidc = (more: Partial<TokenVerifierOptions> = {}) =>
    createTokenVerifier({ issuers: [issuer.url], groups: ['/oscar'], usersAdmin: [], ...more });

  test('userinfo has the groups, and the name', async () => {
    const user = await oidc().verify((await issuer.tokensFor(ALICE)).accessToken);
    assert.deepEqual([user.name, user.groups], ['Alice', ['/oscar', '/alices']]);
  });

  test('userinfo is not asked when groups do not matter', async () => {
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

  test('a refusal is remembered for seconds, not for the life of the token', async () => {
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
      name: 'is about somebody else',
      status: 200,
      body: JSON.stringify({ sub: BOB.sub, ...ALICE.claims }),
      code: 'bad-token',
    },
    { name: 'refuses the token', status: 401, body: '', code: 'bad-token' },
    { name: 'wants another scope', status: 403, body: '', code: 'bad-token' },
    { name: 'is broken', status: 500, body: '', code: 'issuer-unavailable' },
    { name: 'is about nobody', status: 200, body: '{"group_membership":["/oscar"]}', code: 'issuer-unavailable' },
    { name: 'is no JSON', status: 200, body: '<html>', code: 'issuer-unavailable' },
    { name: 'is endless', status: 200, body: 'x'.repeat(1024 * 1024), code: 'issuer-unavailable' },
    {
      name: 'says nothing about groups either',
      status: 200,
      body: JSON.stringify({ sub: ALICE.sub }),
      code: 'not-in-group',
    },
  ];
  for (const { name, status, body, code } of answers) {
    test(`a userinfo that ${name} is ${code}`, async (t) => {
      t.after(issuer.answerInstead('userinfo', (_request, response) => response.writeHead(status).end(body)));
      const { accessToken } = await issuer.tokensFor(ALICE);
      await assert.rejects(oidc().verify(accessToken), isRefusal(code));
    });
  }

  test('a userinfo that was down is asked again after a moment', async (t) => {
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

test('EGI is recognised by its address, and its groups by their urn', async () => {
  const entitlements = ['urn:mace:egi.eu:group:vo.Example.eu:role=member#aai.egi.eu'];
  const users = [{ ...ALICE, claims: { name: 'Alice', entitlements } }];
  await using issuer = await startIssuer({ path: '/auth/realms/egi', users, accessTokenClaims: [] });
  const oidc = createTokenVerifier({ issuers: [issuer.url], groups: ['vo.example.eu'], usersAdmin: [] });
  assert.deepEqual((await oidc.verify((await issuer.tokensFor(ALICE)).accessToken)).groups, ['vo.example.eu']);
});

suite('a token that was verified', () => {
  test('is not known any more when it has expired', async () => {
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

  test('is looked at again after an hour, however long it lives', async () => {
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

  test('is good while its issuer is down', async () => {
    await using issuer = await startIssuer();
    const oidc = createTokenVerifier({ issuers: [issuer.url], groups: ['/oscar'], usersAdmin: [] });
    const { accessToken } = await issuer.tokensFor(ALICE);
    await oidc.verify(accessToken);
    await issuer.stop();
    assert.equal((await oidc.verify(accessToken)).uid, ALICE.sub);
  });
});

suite('when the issuer signs with a new key', () => {
  test('its tokens are accepted as soon as the keys may be asked for again', async (t) => {
    t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
    await using issuer = await startIssuer();
    const oidc = createTokenVerifier({ issuers: [issuer.url], groups: [], usersAdmin: [] });
    await oidc.verify((await issuer.tokensFor(ALICE)).accessToken);

    await issuer.rotateKeys();
    const { accessToken } = await issuer.tokensFor(ALICE);
    await assert.rejects(oidc.verify(accessToken), isRefusal('bad-token'));
    assert.equal(issuer.requests.jwks, 1, 'an unknown key so soon is not looked up');

    t.mock.timers.tick(10_000);
    assert.equal((await oidc.verify(accessToken)).uid, ALICE.sub);
    assert.equal(issuer.requests.jwks, 2);
  });

  test('tokens of the old key are good while it is published, even if they do not name it', async () => {
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
