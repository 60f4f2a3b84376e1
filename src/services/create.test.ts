import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changedIn } from '../lib/changed-in.fixture.ts';
import { StoreError } from '../ports/index.ts';
import { createService } from './create.ts';
import { listIntents } from './intent.ts';
import { removeService } from './remove.ts';
import { admin, alice, bob, body, describeCatalog } from './services.fixture.ts';

describeCatalog('create: services', (open) => {
  test('the caller becomes the owner, whatever the body says', async () => {
    await using catalog = open();
    const claims = { owner: bob.uid, namespace: 'kube-system', token: 'f'.repeat(64) };
    const { service } = await createService(alice, body(claims), catalog);
    assert.equal(service.owner, alice.uid);
    assert.equal(service.ownerName, 'Alice');
    assert.equal(service.namespace, 'oscar-svc-00000001');
    assert.equal(service.definition.vo, '/oscar');
    assert.match(service.token.reveal(), /^[0-9a-f]{64}$/);
    assert.notEqual(service.token.reveal(), 'f'.repeat(64));
  });

  test("an administrator's service has no vo unless the body names one", async () => {
    await using catalog = open();
    const { service } = await createService(admin, body(), catalog);
    assert.equal(service.owner, 'cluster_admin');
    assert.equal(service.ownerName, 'oscar');
    assert.equal(service.namespace, 'oscar-svc');
    assert.equal(service.definition.vo, '');
  });

  test('of concurrent creates with one name, one succeeds and the others are rejected', async () => {
    await using catalog = open();
    const people = [admin, alice, bob];
    const tries = Array.from({ length: 30 }, (_, i) => createService(people[i % 3] ?? admin, body(), catalog));
    const outcomes = await Promise.allSettled(tries);
    assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 1);
    for (const outcome of outcomes) {
      if (outcome.status === 'rejected') assert.equal(outcome.reason.code, 'name-taken');
    }
  });

  test('a taken name leaves the secrets of its holder alone (R2, S15)', async () => {
    await using catalog = open();
    const { service } = await createService(alice, body({ environment: { secrets: { A: 'hers' } } }), catalog);
    const his = body({ environment: { secrets: { A: 'his' } } });
    await assert.rejects(createService(bob, his, catalog), { code: 'name-taken' });
    await assert.rejects(createService(alice, his, catalog), { code: 'name-taken' });
    const stored = await catalog.secrets.get('service', `${service.namespace}/demo`);
    assert.equal(stored?.values['A']?.reveal(), 'hers');
    assert.deepEqual((await catalog.secrets.keys('service')).items, [`${service.namespace}/demo`]);
  });

  test('secrets are stored apart from the definition', async () => {
    await using catalog = open();
    const { service } = await createService(
      alice,
      body({
        environment: { secrets: { KEY: 's3cret' } },
        clusters: { b: { endpoint: 'https://b.example', auth_user: 'u', auth_password: 'pw' } },
      }),
      catalog,
    );
    assert.deepEqual(service.definition.environment.secrets, { KEY: '' });
    const environment = await catalog.secrets.get('service', `${service.namespace}/demo`);
    const credentials = await catalog.secrets.get('credentials', service.uid);
    assert.equal(environment?.values['KEY']?.reveal(), 's3cret');
    assert.equal(credentials?.values['clusters/b/auth_password']?.reveal(), 'pw');
  });

  test('a secret left by an earlier service of that name is not attached to a new one (R2)', async () => {
    await using catalog = open();
    const { service } = await createService(alice, body({ environment: { secrets: { A: '1' } } }), catalog);
    await removeService(alice, 'demo', undefined, catalog);
    await catalog.secrets.put('service', `${service.namespace}/demo`, { STRAY: service.token });
    await createService(alice, body(), catalog);
    assert.equal(await catalog.secrets.get('service', `${service.namespace}/demo`), undefined);
  });

  const refused: [string, Record<string, unknown>, { code: string; message?: RegExp }][] = [
    [
      'a volume',
      { volume: { size: '1Gi', mount_path: '/data' } },
      { code: 'not-supported', message: /^volume is not supported by this manager yet$/ },
    ],
    ['a mount', { mount: { storage_provider: 'minio.default', path: 'b' } }, { code: 'not-supported' }],
    ['an exposed port', { expose: { api_port: 80 } }, { code: 'not-supported' }],
    ['a model', { kserve: { type: 'inference' } }, { code: 'not-supported' }],
    ['an interLink node', { interlink_node_name: 'n' }, { code: 'not-supported' }],
    [
      'YuniKorn totals',
      { total_cpu: '2', total_memory: '1Gi' },
      { code: 'not-supported', message: /total_cpu.*\ntotal_memory/ },
    ],
    [
      'Onedata',
      { output: [{ storage_provider: 'onedata.x', path: 'a' }] },
      { code: 'not-supported', message: /onedata/ },
    ],
    ['members', { federation: { members: [{ cluster_id: 'b', service_name: 'x' }] } }, { code: 'not-supported' }],
    [
      'an undefined output provider',
      { output: [{ storage_provider: 'webdav.x', path: 'a' }] },
      { code: 'invalid-definition', message: /^output\[0\]/ },
    ],
    [
      'an input that is no input',
      { input: [{ storage_provider: 's3.x', path: 'aaa/b' }] },
      { code: 'invalid-definition' },
    ],
    [
      'an input of another store',
      { input: [{ storage_provider: 'minio.x', path: 'aaa/b' }] },
      { code: 'invalid-definition', message: /use minio\.default/ },
    ],
    [
      'a hidden key with nothing behind it',
      { storage_providers: { s3: { x: { secret_key: 'hidden' } } } },
      { code: 'invalid-definition' },
    ],
  ];
  for (const [name, more, expected] of refused) {
    test(`${name} is rejected and changes nothing`, async () => {
      await using catalog = open();
      await assert.rejects(createService(alice, body(more), catalog), expected);
      assert.equal(await catalog.services.get('demo'), undefined);
      assert.notEqual(await catalog.services.reserve('demo', 'somebody'), 'taken');
      assert.deepEqual((await catalog.secrets.keys('service')).items, []);
    });
  }

  test('inactive forms of these blocks are accepted: the dashboard always sends them', async () => {
    await using catalog = open();
    const inactive = {
      expose: { min_scale: 0, api_port: [0], nodePort: 0 },
      mount: { storage_provider: '', path: '' },
    };
    await createService(alice, body(inactive), catalog);
  });

  test('providers that the operator defined need no keys', async () => {
    await using catalog = open();
    await createService(alice, body({ output: [{ storage_provider: 'minio.shared', path: 'out/x' }] }), catalog);
  });

  test('another name for the store of the cluster is accepted as an input', async () => {
    await using catalog = open();
    const minio = { mine: { endpoint: 'http://store.example', access_key: 'a', secret_key: 'b' } };
    await createService(
      alice,
      body({ input: [{ storage_provider: 'minio.mine', path: 'aaa/in' }], storage_providers: { minio } }),
      catalog,
    );
  });

  test('an image outside the allowed repositories is rejected, also with prefix tricks (S16)', async () => {
    await using catalog = open();
    await catalog.settings.write({ allowedImageRepositories: ['ghcr.io/org'] });
    for (const image of ['ubuntu', 'ghcr.io/organic/x', 'evil.io/ghcr.io/org/x']) {
      await assert.rejects(createService(admin, body({ image }), catalog), { code: 'image-refused' });
    }
    await createService(admin, body({ image: 'ghcr.io/org/x:1' }), catalog);
  });

  test('nothing is created if the allowed repositories cannot be read (S16)', async () => {
    await using catalog = open();
    const settings = {
      ...catalog.settings,
      read: () => Promise.reject(new StoreError('unavailable', 'the store is away')),
    };
    await assert.rejects(createService(admin, body(), { ...catalog, settings }), { code: 'unavailable' });
    assert.equal(await catalog.services.get('demo'), undefined);
  });

  test('a vo that the user does not have is rejected', async () => {
    await using catalog = open();
    const groups = { ...catalog, allowedGroups: ['/oscar', '/bobs'] };
    await assert.rejects(createService(alice, body({ vo: '/bobs' }), groups), { code: 'vo-refused' });
    await createService(alice, body({ vo: '/elsewhere' }), groups);
  });

  test('if the definition cannot be stored, name and secrets are free again', async () => {
    await using catalog = open();
    const secrets = body({ environment: { secrets: { A: '1' } } });
    const create = () => Promise.reject(new StoreError('unavailable', 'the store is away'));
    const services = changedIn(catalog.services, { create });
    await assert.rejects(createService(alice, secrets, { ...catalog, services }), { code: 'unavailable' });
    assert.deepEqual((await catalog.secrets.keys('service')).items, []);
    assert.deepEqual(await Array.fromAsync(listIntents(catalog.journal)), []);
    await createService(bob, body(), catalog);
  });

  test('if only the answer of the store is lost, the service is created with its secrets', async () => {
    await using catalog = open();
    const services = changedIn(catalog.services, {
      async create(...given) {
        await catalog.services.create(...given);
        throw new StoreError('unavailable', 'the connection was cut');
      },
    });
    const secrets = body({
      environment: { secrets: { A: '1' } },
      clusters: { b: { endpoint: 'https://b.example', auth_password: 'pw' } },
    });
    const { service } = await createService(alice, secrets, { ...catalog, services });
    assert.equal((await catalog.services.get('demo'))?.service.uid, service.uid);
    assert.ok(await catalog.secrets.get('service', `${service.namespace}/demo`));
    assert.ok(await catalog.secrets.get('credentials', service.uid));
    assert.deepEqual(await Array.fromAsync(listIntents(catalog.journal)), []);
  });
});
