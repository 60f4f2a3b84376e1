import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { ALICE, BOB } from './support/issuer-users.ts';
import { ADMIN, startTestManager, type TestManager } from './support/manager.ts';
import { startPeople } from './support/people.ts';

type Person = 'alice' | 'bob' | 'carol';
const bearer = await startPeople();
let manager: TestManager;

before(async () => {
  manager = await startTestManager({ ...bearer.settings, MINIO_PUBLIC_ENDPOINT: 'http://127.0.0.1:9000' });
  assert.equal((await manager.call('GET', '/system/services', { as: ADMIN })).text, '[]', 'a list without services');
});
after(async () => {
  await manager[Symbol.asyncDispose]();
  await bearer.issuer.stop();
});

const least = (name: string, more: Record<string, unknown> = {}) => ({
  name,
  image: 'ubuntu',
  script: 'echo',
  ...more,
});

async function create(name: string, as: string, more: Record<string, unknown> = {}): Promise<void> {
  const answer = await manager.call('POST', '/system/services', { as, body: least(name, more) });
  assert.equal(answer.status, 201, answer.text);
}

const read = (name: string, as: string) => manager.call('GET', `/system/services/${name}`, { as });

describe('life cycle of a service', () => {
  test('image_prefetch: is stored and shown for each service, and an image that cannot be pulled does no harm (R15)', async () => {
    const image = 'registry.invalid/no-such-image:1';
    await create('prefetch-one', bearer.alice, { image, image_prefetch: true });
    await create('prefetch-two', bearer.alice, { image, image_prefetch: true });
    await create('prefetch-none', bearer.alice, { image });
    const shown = async (name: string) =>
      ((await read(name, bearer.alice)).json() as { image_prefetch: boolean }).image_prefetch;
    for (const name of ['prefetch-one', 'prefetch-two']) assert.equal(await shown(name), true);
    assert.equal(await shown('prefetch-none'), false);
    for (const name of ['prefetch-one', 'prefetch-two', 'prefetch-none']) {
      const { status } = await manager.call('DELETE', `/system/services/${name}`, { as: bearer.alice });
      assert.equal(status, 204);
    }
  });

  test('create 201, read 200, update 204, delete 204, then 404; empty bodies without a type', async () => {
    const created = await manager.call('POST', '/system/services', { as: bearer.alice, body: least('life') });
    const first = await read('life', bearer.alice);
    const updated = await manager.call('PUT', '/system/services', {
      as: bearer.alice,
      body: least('life', { cpu: '1' }),
    });
    const second = (await read('life', bearer.alice)).json() as { cpu: string; token: string };
    const deleted = await manager.call('DELETE', '/system/services/life', { as: bearer.alice });
    const gone = await read('life', bearer.alice);

    assert.deepEqual(
      [created, first, updated, deleted, gone].map(({ status }) => status),
      [201, 200, 204, 204, 404],
    );
    for (const answer of [created, updated, deleted, gone]) {
      assert.equal(answer.text, '');
      assert.equal(answer.headers.get('content-type'), null);
    }
    assert.equal(first.headers.get('content-type'), 'application/json; charset=utf-8');
    assert.equal(second.cpu, '1');
    assert.equal(second.token, (first.json() as { token: string }).token);
  });

  test('a minimal service of the administrator is byte-equal to the Go manager’s', async () => {
    const io = (folder: string) => [{ storage_provider: 'minio.default', path: `demo/${folder}` }];
    await create('demo', ADMIN, { image: 'ghcr.io/x/y', script: '#!/bin/sh\n...', input: io('in'), output: io('out') });
    const { text } = await read('demo', ADMIN);
    assert.equal(
      text.replace(/"token":"[0-9a-f]{64}"/, '"token":"<64 hex>"'),
      '{"name":"demo","cluster_id":"","memory":"256Mi","cpu":"0.2","total_memory":"","total_cpu":"","ephemeral_storage_request":"",' +
        '"enable_gpu":false,"enable_sgx":false,"image_prefetch":false,"synchronous":{"min_scale":0,"max_scale":0},"log_level":"INFO",' +
        '"image":"ghcr.io/x/y","alpine":false,"token":"<64 hex>","file_stage_in":false,' +
        '"input":[{"storage_provider":"minio.default","path":"demo/in"}],"output":[{"storage_provider":"minio.default","path":"demo/out"}],' +
        '"script":"#!/bin/sh\\n...","expose":{"min_scale":0,"max_scale":0,"cpu_threshold":0,"rewrite_target":false,"default_command":false,"set_auth":false,"health_path":""},' +
        '"environment":{"variables":{},"secrets":{}},"annotations":{},"vo":"",' +
        '"labels":{"applicationId":"demo","oscar.grycap/user-service":"true","oscar_service":"demo","owner_name":"oscar","queue":"root.oscar-queue.demo"},' +
        '"storage_providers":{"minio":{"default":{"endpoint":"http://127.0.0.1:9000","verify":true,"access_key":"hidden","secret_key":"hidden","region":"us-east-1"}}},' +
        '"owner":"cluster_admin","namespace":"oscar-svc","interlink_node_name":"","visibility":"private","allowed_users":[],"isolation_level":"","bucket_list":[],' +
        '"mount":{"storage_provider":"","path":""},"volume_status":{"enabled":false}}',
    );
    const shown = JSON.parse(text);
    const put = await manager.call('PUT', '/system/services', { as: ADMIN, body: shown });
    assert.equal(put.status, 204, put.text);
    assert.equal((await read('demo', ADMIN)).text, text, 'putting back what was read changes nothing');
  });

  test('<, > and & are escaped as in Go', async () => {
    await create('escapes', ADMIN, { script: 'cat <&> \u2028' });
    const { text } = await read('escapes', ADMIN);
    assert.ok(text.includes('"script":"cat \\u003c\\u0026\\u003e \\u2028"'), text);
  });

  for (const type of [
    undefined,
    'application/json',
    'text/json',
    'application/octet-stream',
    'text/plain; charset=x',
    'nonsense',
  ]) {
    test(`a body is read as JSON with any content type: ${type}`, async () => {
      const name = `type-${(type ?? 'none').replace(/[^a-z]/g, '').slice(0, 20)}`;
      const body = new TextEncoder().encode(JSON.stringify(least(name)));
      const answer = await manager.call('POST', '/system/services', {
        as: ADMIN,
        body,
        headers: type === undefined ? {} : { 'content-type': type },
      });
      assert.equal(answer.status, 201, answer.text);
    });
  }

  test('of two concurrent creates one is 201 and one 409', async () => {
    const tries = [bearer.alice, bearer.bob].map((as) =>
      manager.call('POST', '/system/services', { as, body: least('race') }),
    );
    const answers = await Promise.all(tries);
    assert.deepEqual(
      answers.map(({ status }) => status).toSorted((a, b) => a - b),
      [201, 409],
    );
    assert.match(answers.find(({ status }) => status === 409)?.text ?? '', /the name "race" is taken/);
  });

  test('If-Match: an update succeeds with the current version and fails with an old one', async () => {
    await create('versions', bearer.alice);
    const etag = (await read('versions', bearer.alice)).headers.get('etag') ?? '';
    const put = (version: string, cpu: string) =>
      manager.call('PUT', '/system/services', {
        as: bearer.alice,
        body: least('versions', { cpu }),
        headers: { 'if-match': version },
      });
    assert.equal((await put(etag, '1')).status, 204);
    const late = await put(etag, '2');
    assert.equal(late.status, 412);
    assert.match(late.text, /read it again/);
    assert.equal(((await read('versions', bearer.alice)).json() as { cpu: string }).cpu, '1');
    assert.equal((await put('*', '3')).status, 204);
  });

  test('include=deployment, in any letter case, adds the deployment', async () => {
    await create('included', ADMIN);
    for (const include of ['deployment', 'DEPLOYMENT,x', 'a, Deployment']) {
      const { text } = await manager.call('GET', `/system/services/included?include=${encodeURIComponent(include)}`, {
        as: ADMIN,
      });
      assert.match(
        text,
        /"volume_status":\{"enabled":false\},"deployment":\{"state":"unavailable","reason":"[^"]+","active_instances":0,"affected_instances":0,"resource_kind":"unavailable"\}\}$/,
      );
    }
    const list = await manager.call('GET', '/system/services?include=deployment', { as: ADMIN });
    for (const service of list.json() as { deployment?: unknown }[]) assert.ok(service.deployment);
  });

  test('deployment and its logs', async () => {
    await create('deployed', ADMIN);
    const status = await manager.call('GET', '/system/services/deployed/deployment', { as: ADMIN });
    assert.match(
      status.text,
      /^\{"service_name":"deployed","namespace":"oscar-svc","state":"unavailable","reason":"[^"]+","active_instances":0,"affected_instances":0,"resource_kind":"unavailable"\}$/,
    );
    const logs = await manager.call('GET', '/system/services/deployed/deployment/logs?tailLines=x&timestamps=y', {
      as: ADMIN,
    });
    assert.match(logs.text, /^\{"service_name":"deployed","available":false,"message":"[^"]+","entries":\[\]\}$/);
    for (const path of ['deployment', 'deployment/logs']) {
      assert.equal((await manager.call('GET', `/system/services/deployed/${path}`, { as: bearer.bob })).status, 404);
      assert.equal((await manager.call('GET', `/system/services/nope/${path}`, { as: ADMIN })).status, 404);
      assert.equal((await manager.call('GET', `/system/services/-x-/${path}`, { as: ADMIN })).status, 400);
    }
  });
});

describe('access to services', () => {
  before(async () => {
    await create('priv', bearer.alice);
    await create('restr', bearer.alice, { visibility: 'restricted', allowed_users: [BOB.sub] });
    await create('pub', bearer.alice, { visibility: 'public' });
  });

  const matrix: [Person | 'admin', string, number, number, number][] = [
    // who, service, read, update, delete of a service that is not theirs
    ['admin', 'priv', 200, 204, 204],
    ['alice', 'priv', 200, 204, 204],
    ['bob', 'priv', 404, 404, 404],
    ['bob', 'restr', 200, 403, 403],
    ['carol', 'restr', 404, 404, 404],
    ['carol', 'pub', 200, 403, 403],
    ['alice', 'nope', 404, 404, 404],
  ];
  for (const [who, name, reading, updating, deleting] of matrix) {
    test(`${who} and ${name}: read ${reading}, update ${updating}, delete ${deleting}`, async () => {
      const as = who === 'admin' ? ADMIN : bearer[who];
      const answer = await read(name, as);
      assert.equal(answer.status, reading);
      if (reading === 404) assert.equal(answer.text, '');
      const body = reading === 200 ? answer.json() : least(name);
      assert.equal((await manager.call('PUT', '/system/services', { as, body })).status, updating);
      assert.equal((await manager.call('DELETE', `/system/services/${name}`, { as })).status, deleting);
      if (deleting === 204) await create(name, bearer.alice);
    });
  }

  test('lists contain the services that the caller may read', async () => {
    const names = async (as: string) =>
      ((await manager.call('GET', '/system/services', { as })).json() as { name: string; owner: string }[])
        .filter(({ owner }) => owner === ALICE.sub)
        .map(({ name }) => name);
    assert.ok((await names(ADMIN)).includes('priv'));
    const bobs = await names(bearer.bob);
    assert.ok(bobs.includes('restr') && bobs.includes('pub') && !bobs.includes('priv'));
    const carols = await names(bearer.carol);
    assert.ok(!carols.includes('restr') && carols.includes('pub'));
  });
});

describe('the federation of a service without members', () => {
  test('is byte-equal to the Go manager’s, under both names', async () => {
    await create('plain', bearer.alice);
    await create('star', bearer.alice, {
      federation: { topology: 'STAR', members: [] },
      environment: { secrets: { refresh_token: 'r' } },
    });
    const get = async (path: string) => (await manager.call('GET', path, { as: bearer.alice })).text;
    assert.equal(await get('/system/federation/plain'), '{"topology":"none","members":null}');
    assert.equal(await get('/system/replicas/plain'), '{"topology":"none","replicas":null}');
    assert.equal(await get('/system/federation/star'), '{"topology":"STAR","members":null}');
  });

  test('is shown to the owner, the administrator and the holder of the service token', async () => {
    await create('fed', bearer.alice);
    const { token } = (await read('fed', bearer.alice)).json() as { token: string };
    const status = async (as: string | undefined, name = 'fed') =>
      (await manager.call('GET', `/system/replicas/${name}`, as === undefined ? {} : { as })).status;
    assert.equal(await status(bearer.alice), 200);
    assert.equal(await status(ADMIN), 200);
    assert.equal(await status(`Bearer ${token}`), 200);
    assert.equal(await status(`Bearer ${'0'.repeat(64)}`), 401);
    assert.equal(await status(`Bearer ${token}`, 'plain'), 401);
    assert.equal(await status(bearer.bob), 404, 'not for another user (F28)');
    assert.equal(await status(undefined), 401);
    assert.equal(await status('Bearer x'), 401, 'not for a bearer that is no token (S1)');
    assert.equal(await status(ADMIN, 'nope'), 404);
  });
});

describe('forward authentication', () => {
  let token = '';
  const auth = (name: string, options: { as?: string; headers?: Record<string, string>; query?: string } = {}) =>
    manager.call('GET', `/system/services/${name}/auth${options.query ?? ''}`, options);

  before(async () => {
    await create('fwd-priv', bearer.alice);
    await create('fwd-pub', bearer.alice, { visibility: 'public' });
    token = ((await read('fwd-priv', bearer.alice)).json() as { token: string }).token;
  });

  test('accepts users with access and the administrator, rejects others', async () => {
    assert.equal((await auth('fwd-priv', { as: ADMIN })).status, 200);
    assert.equal((await auth('fwd-priv', { as: bearer.alice })).status, 200);
    assert.equal((await auth('fwd-priv', { as: bearer.bob })).status, 404);
    assert.equal((await auth('fwd-pub', { as: bearer.bob })).status, 200);
    assert.equal((await auth('fwd-priv')).status, 401);
    assert.equal((await auth('nope', { as: ADMIN })).status, 404);
    assert.equal((await auth('nope', { as: `Bearer ${'0'.repeat(64)}` })).status, 401, 'unknown (R8)');
  });

  test('the service token in a header, query, forwarded query or cookie sets a cookie', async () => {
    const cookie = `oscar_service_fwd_priv_auth=${token}; Path=/system/services/fwd-priv/exposed; HttpOnly; SameSite=Lax`;
    const ways = [
      { as: `Bearer ${token}` },
      { query: `?token=${token}` },
      { headers: { 'x-forwarded-uri': `/system/services/fwd-priv/exposed/?a=b&token=${token}` } },
      { headers: { cookie: `x=y; oscar_service_fwd_priv_auth=${token}` } },
    ];
    for (const way of ways) {
      const answer = await auth('fwd-priv', way);
      assert.equal(answer.status, 200);
      assert.equal(answer.text, '');
      assert.equal(answer.headers.get('set-cookie'), cookie);
    }
    const secure = await auth('fwd-priv', { query: `?token=${token}`, headers: { 'x-forwarded-proto': 'https' } });
    assert.match(secure.headers.get('set-cookie') ?? '', /HttpOnly; Secure; SameSite=Lax$/);
  });

  test('a wrong token is 401 in each of these places', async () => {
    const wrong = 'f'.repeat(64);
    const ways = [
      { as: `Bearer ${wrong}` },
      { query: `?token=${wrong}` },
      { query: '?token=short' },
      { headers: { cookie: `oscar_service_fwd_priv_auth=${wrong}` } },
      { headers: { 'x-forwarded-uri': `/?token=${wrong}` } },
    ];
    for (const way of ways) {
      const answer = await auth('fwd-priv', way);
      assert.equal(answer.status, 401);
      assert.equal(answer.headers.get('set-cookie'), null);
    }
  });

  test('a token in the query is accepted on no other route, and never logged (S12)', async () => {
    assert.equal((await manager.call('GET', `/system/services/fwd-priv?token=${token}`)).status, 401);
    assert.equal((await manager.call('GET', `/system/replicas/fwd-priv?token=${token}`)).status, 401);
    assert.ok(!JSON.stringify(manager.log).includes(token));
  });
});
