import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { generateKeyPair, SignJWT, UnsecuredJWT } from 'jose';
import { startIssuer } from './support/issuer.ts';
import { ALICE, BOB, CAROL } from './support/issuer-users.ts';
import { eventually } from './support/jobs.ts';
import { ADMIN, startTestManager, type TestManager } from './support/manager.ts';

const issuer = await startIssuer();
const other = await startIssuer();
const { accessToken: alice } = await issuer.tokensFor(ALICE);
let manager: TestManager;

before(async () => {
  manager = await startTestManager({ OIDC_ENABLE: 'true', OIDC_ISSUERS: issuer.url, OIDC_GROUPS: '/oscar' });
});
after(async () => {
  await manager[Symbol.asyncDispose]();
  await Promise.all([issuer.stop(), other.stop()]);
});

const BASIC = 'Basic realm="Authorization Required"';
const info = (as?: string) => manager.call('GET', '/system/info', as === undefined ? {} : { as });
const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`;

describe('credentials: none or unknown ones get 401, an empty body and a Basic challenge', () => {
  const cases: [string, string | undefined][] = [
    ['none', undefined],
    ['a wrong password', basic('oscar:wrong')],
    ['an unknown user', basic('root:correct horse')],
    ['no password', basic('oscar:')],
    ['no colon', basic('oscar')],
    ['something that is not base64', 'Basic ???'],
    ['Bearer without a token', 'Bearer'],
    ['bearer in lower case', `bearer ${alice}`],
    ['basic in lower case', ADMIN.replace('Basic', 'basic')],
    ['an unknown scheme', 'Token abc'],
  ];
  for (const [name, as] of cases) {
    test(name, async () => {
      const answer = await info(as);
      assert.equal(answer.status, 401);
      assert.equal(answer.text, '');
      assert.equal(answer.headers.get('www-authenticate'), BASIC);
    });
  }
});

describe('credentials: a rejected bearer token gets 401, an empty body and a machine-readable reason (S1)', () => {
  const claims = { iss: issuer.url, sub: ALICE.sub, aud: 'oscar', group_membership: ['/oscar'] };
  const soon = () => Math.floor(Date.now() / 1000) + 600;
  const cases: [string, () => Promise<string>][] = [
    ['not a JWT', async () => 'x'],
    ['a service token', async () => 'a'.repeat(64)],
    ['another issuer', async () => (await other.tokensFor(ALICE)).accessToken],
    ['expired', () => issuer.sign({ ...claims, exp: soon() - 6000 })],
    ['unsigned', async () => new UnsecuredJWT(claims).setExpirationTime('1h').encode()],
    [
      'signed with a symmetric key',
      () =>
        new SignJWT({ ...claims, exp: soon() })
          .setProtectedHeader({ alg: 'HS256' })
          .sign(new TextEncoder().encode(JSON.stringify(issuer.publicKey()))),
    ],
    [
      'signed with another key',
      async () =>
        new SignJWT({ ...claims, exp: soon() })
          .setProtectedHeader({ alg: 'RS256' })
          .sign((await generateKeyPair('RS256')).privateKey),
    ],
    ['of somebody in no allowed group', async () => (await issuer.tokensFor(CAROL)).accessToken],
    ['of a user called like the administrator', () => issuer.sign({ ...claims, sub: 'cluster_admin', exp: soon() })],
  ];
  for (const [name, token] of cases) {
    test(name, async () => {
      const as = `Bearer ${await token()}`;
      for (const [method, path] of [
        ['GET', '/system/info'],
        ['GET', '/system/services'],
        ['GET', '/system/federation/none'],
        ['POST', '/system/services'],
      ] as const) {
        const answer = await manager.call(method, path, {
          as,
          ...(method === 'POST' && { body: { name: 'x', image: 'y', script: 'z' } }),
        });
        assert.equal(answer.status, 401, path);
        assert.equal(answer.text, '');
        assert.match(
          answer.headers.get('www-authenticate') ?? '',
          /^Bearer error="invalid_token", error_description="[^"]+"$/,
        );
      }
      assert.ok(!JSON.stringify(manager.log).includes(as.slice(7, 80)) || as.length < 20, 'a token is never logged');
    });
  }
});

test('credentials: a valid token is accepted repeatedly', async () => {
  for (let i = 0; i < 3; i++) assert.equal((await info(`Bearer ${alice}`)).status, 200);
});

test('credentials: concurrent requests of several users are not mixed up (S2)', async () => {
  const bob = `Bearer ${(await issuer.tokensFor(BOB)).accessToken}`;
  const people: [string, string][] = [
    [ADMIN, 'cluster_admin'],
    [`Bearer ${alice}`, ALICE.sub],
    [bob, BOB.sub],
  ];
  const made = await Promise.all(
    Array.from({ length: 60 }, async (_, i) => {
      const [as, owner] = people[i % 3] ?? ['', ''];
      const name = `many-${i}`;
      const { status } = await manager.call('POST', '/system/services', {
        as,
        body: { name, image: 'x', script: 'y' },
      });
      const { json } = await manager.call('GET', `/system/services/${name}`, { as });
      return { status, owner, shown: (json() as { owner: string }).owner };
    }),
  );
  for (const { status, owner, shown } of made) {
    assert.equal(status, 201);
    assert.equal(shown, owner);
  }
});

test('credentials: an issuer outage gives 503 to its users only, and ends without a restart', async () => {
  const away = await startIssuer();
  const { accessToken } = await away.tokensFor(ALICE);
  await using both = await startTestManager({
    OIDC_ENABLE: 'true',
    OIDC_ISSUERS: `${issuer.url},${away.url}`,
    OIDC_ISSUER_ALIASES: `away=${away.url}`,
  });
  const ask = (token: string) => both.call('GET', '/system/info', { as: `Bearer ${token}` });
  await away.stop();
  const refused = await ask(accessToken);
  assert.equal(refused.status, 503);
  assert.ok(refused.headers.get('retry-after'));
  assert.equal((await ask(alice)).status, 200);
  await away.start();
  await eventually(async () => assert.equal((await ask(accessToken)).status, 200));
  await away.stop();
});

test('credentials: guessing the password of the administrator is slowed down, and the right one works again soon', async () => {
  await using guessed = await startTestManager();
  const statuses = await Promise.all(
    Array.from({ length: 60 }, async (_, i) => {
      const { status, headers } = await guessed.call('GET', '/system/info', { as: basic(`oscar:guess-${i}`) });
      if (status === 429) assert.equal(headers.get('retry-after'), '1');
      return status;
    }),
  );
  assert.deepEqual(new Set(statuses), new Set([401, 429]));
  await eventually(async () => {
    assert.equal((await guessed.call('GET', '/system/info', { as: ADMIN })).status, 200);
  });
});

describe('credentials: with OIDC_AUDIENCE', () => {
  const exp = () => Math.floor(Date.now() / 1000) + 600;
  const settings = { OIDC_ENABLE: 'true', OIDC_ISSUERS: issuer.url, OIDC_AUDIENCE: 'dashboard, oscar' };
  const cases = [
    { name: 'a token for one of them is accepted', claims: { aud: ['account', 'oscar'] }, status: 200 },
    {
      name: 'a token that was issued to one of them is accepted',
      claims: { aud: 'account', azp: 'dashboard' },
      status: 200,
    },
    { name: 'a token for another application is rejected', claims: { aud: 'wiki', azp: 'wiki' }, status: 401 },
  ];
  let strict: TestManager;
  before(async () => {
    strict = await startTestManager(settings);
  });
  after(() => strict[Symbol.asyncDispose]());
  for (const { name, claims, status } of cases) {
    test(name, async () => {
      const as = `Bearer ${await issuer.sign({ sub: ALICE.sub, exp: exp(), ...claims })}`;
      const answer = await strict.call('GET', '/system/info', { as });
      assert.equal(answer.status, status);
      if (status === 401) assert.match(answer.headers.get('www-authenticate') ?? '', /another audience/);
    });
  }

  test('an ID token is rejected, though its audience is one of them', async () => {
    const { idToken } = await issuer.tokensFor(ALICE);
    const answer = await strict.call('GET', '/system/info', { as: `Bearer ${idToken}` });
    assert.equal(answer.status, 401);
    assert.match(answer.headers.get('www-authenticate') ?? '', /not an access token/);
  });

  test('the manager warns at start and shows the administrator if it is not set', async () => {
    const warnings = ({ log }: TestManager) =>
      JSON.stringify(log).match(/every application of the issuers/g)?.length ?? 0;
    const shown = async (at: TestManager) => (await at.call('GET', '/system/info', { as: ADMIN })).text;
    assert.deepEqual([warnings(strict), warnings(manager)], [0, 1]);
    assert.ok((await shown(manager)).includes('OIDC_AUDIENCE') && !(await shown(strict)).includes('OIDC_AUDIENCE'));
  });
});

test('credentials: without OIDC a bearer token is ignored', async () => {
  await using plain = await startTestManager();
  const answer = await plain.call('GET', '/system/info', { as: `Bearer ${alice}` });
  assert.equal(answer.status, 401);
  assert.equal(answer.headers.get('www-authenticate'), BASIC);
});
