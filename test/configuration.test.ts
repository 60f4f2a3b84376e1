import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { ALICE } from './support/issuer-users.ts';
import { ADMIN, startTestManager, type TestManager } from './support/manager.ts';
import { startPeople } from './support/people.ts';

const { issuer, alice, bob, settings } = await startPeople();
let manager: TestManager;

before(async () => {
  manager = await startTestManager({
    ...settings,
    MINIO_ACCESS_KEY: 'root-key',
    MINIO_SECRET_KEY: 'root-secret',
    MINIO_PUBLIC_ENDPOINT: 'https://store.example',
  });
});
after(async () => {
  await manager[Symbol.asyncDispose]();
  await issuer.stop();
});

interface Shown {
  minio_provider: { endpoint: string; access_key: string; secret_key: string };
  allowed_image_repositories: string[];
}
const shown = async (as: string) => (await manager.call('GET', '/system/config', { as })).json() as Shown;
const put = (as: string, body: unknown) => manager.call('PUT', '/system/config', { as, body });

describe('cluster configuration', () => {
  test('is byte-equal to what clients expect', async () => {
    const { text } = await manager.call('GET', '/system/config', { as: ADMIN });
    assert.equal(
      text,
      '{"config":{"name":"oscar","namespace":"oscar","services_namespace":"oscar-svc","controller_service_account":"oscar-sa",' +
        '"gpu_available":false,"interLink_available":false,"yunikorn_enable":false,"kueue_enable":false,"volume_enable":false,' +
        '"oidc_groups":["/oscar"],"minio_quota_enabled":false},"minio_provider":{"endpoint":"https://store.example","verify":true,' +
        '"access_key":"root-key","secret_key":"root-secret","region":"us-east-1"},"allowed_image_repositories":[]}',
    );
  });

  test('returns the same own keys to a user every time', async () => {
    const [first, again, other] = await Promise.all([shown(alice), shown(alice), shown(bob)]);
    assert.equal(first.minio_provider.access_key, ALICE.sub);
    assert.equal(first.minio_provider.secret_key, again.minio_provider.secret_key);
    assert.notEqual(first.minio_provider.secret_key, other.minio_provider.secret_key);
    assert.ok(first.minio_provider.secret_key.length >= 30);
    assert.ok(!JSON.stringify(first).includes('root-'), 'no root key is shown (S4)');
  });

  test('shows [""] without groups, for which the dashboard checks', async () => {
    await using open = await startTestManager();
    assert.ok((await open.call('GET', '/system/config', { as: ADMIN })).text.includes('"oidc_groups":[""]'));
  });

  test('/system/info has the form that clients read', async () => {
    const { text } = await manager.call('GET', '/system/info', { as: alice });
    assert.match(
      text,
      /^\{"version":"\d+\.\d+\.\d+","git_commit":"","architecture":"(amd64|arm64)","kubernetes_version":"(v1\.[^"]+)?","manager_version":"\d+\.\d+\.\d+","manager_commit":"[0-9a-f]*"(,"runtime":"process: [^"]+","isolation":\{"user_ids":(true|false),"namespaces":(true|false),"enforced":\[[^\]]*\][^}]*\})?\}$/,
    );
  });

  test('/system/info: the version is that of the API, which the dashboard compares with 4.1.0', async () => {
    const info = (await manager.call('GET', '/system/info', { as: alice })).json() as Record<string, string>;
    const [major = 0, minor = 0] = (info['version'] ?? '').split('.').map(Number);
    assert.ok(major > 4 || (major === 4 && minor >= 1), info['version']);
    const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
    assert.equal(info['manager_version'], version);
  });
});

describe('allowed image repositories', () => {
  test('only the administrator changes them; a bearer token gets the answer of the Go manager', async () => {
    const answer = await put(alice, { allowed_image_repositories: ['evil'] });
    assert.equal(answer.status, 401);
    assert.equal(answer.text, '""');
    assert.equal(answer.headers.get('content-type'), 'application/json; charset=utf-8');
    assert.deepEqual((await shown(ADMIN)).allowed_image_repositories, []);
  });

  test('are stored, shown, enforced and cleared', async () => {
    const answer = await put(ADMIN, { config: { name: 'z' }, allowed_image_repositories: ['ubuntu', 'ghcr.io/org'] });
    assert.equal(answer.text, '["ubuntu","ghcr.io/org"]');
    assert.deepEqual((await shown(bob)).allowed_image_repositories, ['ubuntu', 'ghcr.io/org']);
    const refused = await manager.call('POST', '/system/services', {
      as: bob,
      body: { name: 'img', image: 'ubuntux', script: 'x' },
    });
    assert.equal(refused.status, 400);
    assert.match(refused.text, /"ubuntux" is not in a repository that this cluster allows/);
    assert.equal((await manager.call('GET', '/system/services/img', { as: ADMIN })).status, 404);
    assert.equal((await put(ADMIN, {})).text, 'null');
    assert.deepEqual((await shown(bob)).allowed_image_repositories, []);
    assert.equal((await put(ADMIN, { allowed_image_repositories: [] })).text, '[]');
  });

  for (const [name, body] of [
    ['a string', { allowed_image_repositories: 'x' }],
    ['numbers', { allowed_image_repositories: [1] }],
    ['a blank entry, which would allow everything (S16)', { allowed_image_repositories: ['ubuntu', ' '] }],
    ['a list', []],
    ['nothing', ''],
    ['no JSON', '{bad'],
  ] as const) {
    test(`${name} is refused`, async () => {
      assert.equal((await put(ADMIN, body)).status, 400);
      assert.deepEqual((await shown(ADMIN)).allowed_image_repositories, []);
    });
  }
});

describe('CORS', () => {
  test('is answered for the configured origins only', async () => {
    await using open = await startTestManager({ OSCAR_CORS_ORIGINS: 'http://localhost:5173' });
    const preflight = (origin: string) =>
      open.call('OPTIONS', '/system/services', { headers: { origin, 'access-control-request-method': 'PUT' } });
    const good = await preflight('http://localhost:5173');
    assert.equal(good.status, 204);
    assert.equal(good.headers.get('access-control-allow-origin'), 'http://localhost:5173');
    assert.match(good.headers.get('access-control-allow-methods') ?? '', /PUT/);
    assert.match(good.headers.get('access-control-allow-headers') ?? '', /authorization/);
    const bad = await preflight('http://evil.example');
    assert.equal(bad.status, 404);
    assert.equal(bad.headers.get('access-control-allow-origin'), null);
    const unauthorised = await open.call('GET', '/system/info', { headers: { origin: 'http://localhost:5173' } });
    assert.equal(unauthorised.status, 401);
    assert.equal(
      unauthorised.headers.get('access-control-allow-origin'),
      'http://localhost:5173',
      'so that the page can read the 401',
    );
  });
});
