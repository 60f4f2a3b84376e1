import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Issuer, startIssuer } from '../../../test/support/issuer.ts';
import { ALICE } from '../../../test/support/issuer-users.ts';
import { IdentityError } from '../errors.ts';
import { createTokenVerifier } from './token-verifier.ts';

const unavailable = (error: unknown) => error instanceof IdentityError && error.code === 'issuer-unavailable';

const tokenOf = async (issuer: Issuer) => (await issuer.tokensFor(ALICE)).accessToken;

/** A verifier that trusts these issuers, with a manual clock and its log messages. */
function trust(...issuers: Issuer[]) {
  const clock = { now: Date.now() };
  const logged: string[] = [];
  const log = (_fields: object, message: string) => void logged.push(message);
  const oidc = createTokenVerifier({
    issuers: issuers.map(({ url }) => url),
    aliases: new Map(issuers.slice(1).map(({ url }, index) => [url, `issuer-${index + 2}`])),
    groups: ['/oscar'],
    usersAdmin: [],
    now: () => clock.now,
    logger: { info: log, warn: log },
  });
  return { oidc, clock, logged };
}

test('issuer outage: affects only its own users, and ends without a restart', async () => {
  await using up = await startIssuer();
  await using down = await startIssuer();
  const [ofUp, ofDown] = [await tokenOf(up), await tokenOf(down)];
  const { oidc, clock, logged } = trust(down, up);

  await down.stop();
  await assert.rejects(oidc.verify(ofDown), unavailable);
  assert.equal((await oidc.verify(ofUp)).uid, `issuer-2~${ALICE.sub}`);

  await down.start();
  await assert.rejects(oidc.verify(ofDown), unavailable, 'not requested again at once');
  assert.equal(down.requests.discovery, 0);
  clock.now += 1_000;
  assert.equal((await oidc.verify(ofDown)).uid, ALICE.sub);
  assert.deepEqual(logged, ['issuer unavailable', 'issuer discovered', 'issuer discovered']);
});

test('several issuers: the same sub is another user at each issuer, unless they are declared equal', async () => {
  await using first = await startIssuer();
  await using second = await startIssuer({ accessTokenClaims: ['name'] });
  const [ofFirst, ofSecond] = [await tokenOf(first), await tokenOf(second)];
  const { oidc } = trust(first, second);
  const { uid, subject, issuer, name, groups } = await oidc.verify(ofSecond);
  assert.deepEqual([uid, subject, issuer], [`issuer-2~${ALICE.sub}`, ALICE.sub, second.url]);
  assert.deepEqual(
    [name, groups.includes('/oscar')],
    ['Alice', true],
    'userinfo is asked for the sub, not for the uid',
  );
  assert.equal((await oidc.verify(ofFirst)).uid, ALICE.sub);

  const issuers = [first.url, second.url];
  const equal = createTokenVerifier({ issuers, equal: [second.url], groups: [], usersAdmin: [] });
  assert.deepEqual([(await equal.verify(ofFirst)).uid, (await equal.verify(ofSecond)).uid], [ALICE.sub, ALICE.sub]);
});

test('several issuers: the first issuer cannot name a user of another one', async () => {
  await using first = await startIssuer();
  await using second = await startIssuer();
  const { oidc } = trust(first, second);
  const claims = { sub: `issuer-2~${ALICE.sub}`, group_membership: ['/oscar'], exp: Date.now() / 1000 + 60 };
  await assert.rejects(
    oidc.verify(await first.sign(claims)),
    (error) => error instanceof IdentityError && error.code === 'bad-token' && /is reserved/.test(error.message),
  );
});

test('issuer discovery: concurrent first requests share one, also if it fails', async () => {
  await using issuer = await startIssuer();
  const tokens = await Promise.all(Array.from({ length: 10 }, () => tokenOf(issuer)));
  const { oidc, clock } = trust(issuer);

  const mend = issuer.answerInstead('discovery', (_request, response) => response.writeHead(503).end());
  const failed = await Promise.allSettled(tokens.map((token) => oidc.verify(token)));
  assert.ok(failed.every((result) => result.status === 'rejected' && unavailable(result.reason)));
  assert.equal(issuer.requests.discovery, 1);

  mend();
  clock.now += 1_000;
  await Promise.all(tokens.map((token) => oidc.verify(token)));
  assert.equal(issuer.requests.discovery, 2);
  assert.equal(issuer.requests.jwks, 1);
});

const metadata: { name: string; of: (url: string) => unknown }[] = [
  { name: 'of another issuer', of: (url) => ({ issuer: 'https://example.org', jwks_uri: `${url}/jwks` }) },
  { name: 'of an issuer with almost the same name', of: (url) => ({ issuer: `${url}/`, jwks_uri: `${url}/jwks` }) },
  { name: 'without keys', of: (issuer) => ({ issuer }) },
  { name: 'with an invalid jwks_uri', of: (issuer) => ({ issuer, jwks_uri: 'nowhere' }) },
  { name: 'that is a list', of: () => [] },
  { name: 'that is null', of: () => null },
];
for (const { name, of } of metadata) {
  test(`issuer discovery: an issuer with metadata ${name} is unavailable`, async () => {
    await using issuer = await startIssuer();
    const token = await tokenOf(issuer);
    issuer.answerInstead('discovery', (_request, response) => response.end(JSON.stringify(of(issuer.url))));
    await assert.rejects(trust(issuer).oidc.verify(token), unavailable);
  });
}

const keys = [
  { name: 'cannot be fetched', status: 500, body: '' },
  { name: 'are not JSON', status: 200, body: '<html>' },
  { name: 'are not a key set', status: 200, body: '{"keys":7}' },
];
for (const { name, status, body } of keys) {
  test(`issuer outage: a token is not rejected as bad if the keys ${name}`, async () => {
    await using issuer = await startIssuer();
    const token = await tokenOf(issuer);
    const { oidc, clock } = trust(issuer);
    const mend = issuer.answerInstead('jwks', (_request, response) => response.writeHead(status).end(body));
    await assert.rejects(oidc.verify(token), unavailable);
    mend();
    clock.now += 1_000;
    assert.equal((await oidc.verify(token)).uid, ALICE.sub);
  });
}

test('issuer outage: keys are not requested again at once after a failure', async () => {
  await using issuer = await startIssuer();
  const token = await tokenOf(issuer);
  const { oidc } = trust(issuer);
  issuer.answerInstead('jwks', (_request, response) => response.writeHead(500).end());
  await assert.rejects(oidc.verify(token), unavailable);
  await assert.rejects(oidc.verify(token), unavailable);
  assert.equal(issuer.requests.jwks, 1);
});

test('issuer outage: known keys stay valid while new ones cannot be fetched', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
  await using issuer = await startIssuer();
  const [first, second] = [await tokenOf(issuer), await tokenOf(issuer)];
  const invented = await issuer.sign({ sub: 'x', exp: Date.now() / 1000 + 600 }, { alg: 'RS256', kid: 'invented' });
  const { oidc } = trust(issuer);
  await oidc.verify(first);
  await issuer.stop();

  t.mock.timers.tick(60_000);
  await assert.rejects(oidc.verify(invented), unavailable);
  assert.equal((await oidc.verify(second)).uid, ALICE.sub);
});

test('issuer outage: the error has a cause and does not contain the token', async () => {
  await using issuer = await startIssuer();
  const token = await tokenOf(issuer);
  await issuer.stop();
  await assert.rejects(trust(issuer).oidc.verify(token), (error) => {
    assert.ok(error instanceof IdentityError && error.cause instanceof Error);
    assert.ok(error.message.includes(issuer.url));
    assert.ok(!error.message.includes(token));
    return true;
  });
});
