import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Version } from '../lib/version.ts';
import { present } from '../model/service/index.ts';
import { createService } from './create.ts';
import { admin, alice, bob, body, describeCatalog } from './services.fixture.ts';
import { updateService } from './update.ts';

const store = { endpoint: 'http://store.example', verify: true, region: 'r' };

describeCatalog('update: services', (open) => {
  test('update: replaces the definition and keeps owner, namespace, token and uid for every caller (R16)', async () => {
    await using catalog = open();
    const before = await createService(alice, body({ cpu: '1', labels: { a: '1' } }), catalog);
    for (const who of [alice, admin]) {
      const { service } = await updateService(who, body({ owner: bob.uid, memory: '1Gi' }), undefined, catalog);
      assert.equal(service.definition.cpu, '0.2');
      assert.equal(service.definition.memory, '1Gi');
      assert.deepEqual(service.definition.labels, {});
      assert.equal(service.definition.vo, '/oscar', 'the vo stays (R30)');
      for (const key of ['uid', 'owner', 'ownerName', 'namespace'] as const) {
        assert.equal(service[key], before.service[key]);
      }
      assert.ok(service.token.equals(before.service.token));
    }
  });

  test('an update keeps all secrets unless it names some; then those that it leaves out are removed', async () => {
    await using catalog = open();
    const secrets = { A: '1', B: '2' };
    const { service } = await createService(alice, body({ environment: { secrets } }), catalog);
    const stored = async () => {
      const record = await catalog.secrets.get('service', `${service.namespace}/demo`);
      return Object.fromEntries(Object.entries(record?.values ?? {}).map(([name, value]) => [name, value.reveal()]));
    };
    for (const environment of [undefined, null, {}, { secrets: null }, { secrets: {} }, { variables: { V: '1' } }]) {
      const after = await updateService(alice, body({ environment }), undefined, catalog);
      assert.deepEqual(after.service.definition.environment.secrets, { A: '', B: '' });
      assert.deepEqual(await stored(), secrets);
    }
    await updateService(alice, body({ environment: { secrets: { B: '' } } }), undefined, catalog);
    assert.deepEqual(await stored(), { B: '2' });
  });

  test('writing back what was read changes nothing and loses no secret (R3)', async () => {
    await using catalog = open();
    const full = body({
      visibility: 'restricted',
      allowed_users: [bob.uid],
      isolation_level: 'USER',
      input: [{ storage_provider: 'minio.default', path: 'demo/in' }],
      environment: { variables: { V: '1' }, secrets: { KEY: 's3cret' } },
      storage_providers: { webdav: { w: { hostname: 'dav', login: 'u', password: 'pw' } } },
      clusters: { b: { endpoint: 'https://b.example', auth_user: 'u', auth_password: 'pw2' } },
      federation: { topology: 'star', delegation: { mode: 'random', weights: { b: 1 } } },
    });
    const before = await createService(alice, full, catalog);
    const shown = present(before.service, { store, showToken: true });
    const after = await updateService(alice, shown, undefined, catalog);
    assert.deepEqual(after.service.definition, before.service.definition);
    const environment = await catalog.secrets.get('service', `${before.service.namespace}/demo`);
    const credentials = await catalog.secrets.get('credentials', before.service.uid);
    assert.equal(environment?.values['KEY']?.reveal(), 's3cret');
    assert.equal(credentials?.values['providers/webdav.w/password']?.reveal(), 'pw');
    assert.equal(credentials?.values['clusters/b/auth_password']?.reveal(), 'pw2');
  });

  test('secrets are added, changed, kept and deleted', async () => {
    await using catalog = open();
    const { service } = await createService(
      alice,
      body({ environment: { secrets: { A: '1', B: '2', C: '3' } } }),
      catalog,
    );
    await updateService(alice, body({ environment: { secrets: { A: '', B: 'two', D: '4' } } }), undefined, catalog);
    const stored = await catalog.secrets.get('service', `${service.namespace}/demo`);
    const revealed = Object.entries(stored?.values ?? {}).map(([name, secret]) => [name, secret.reveal()]);
    assert.deepEqual(Object.fromEntries(revealed), { A: '1', B: 'two', D: '4' });
  });

  test('a user without access gets not found, a user with read access gets forbidden', async () => {
    await using catalog = open();
    await createService(alice, body(), catalog);
    await assert.rejects(updateService(bob, body(), undefined, catalog), { code: 'not-found' });
    await updateService(alice, body({ visibility: 'public' }), undefined, catalog);
    await assert.rejects(updateService(bob, body(), undefined, catalog), { code: 'not-allowed' });
    await assert.rejects(updateService(bob, body({ name: 'nope' }), undefined, catalog), { code: 'not-found' });
  });

  test('an old version is rejected and changes nothing', async () => {
    await using catalog = open();
    const first = await createService(alice, body({ environment: { secrets: { A: '1' } } }), catalog);
    const second = await updateService(
      alice,
      body({ cpu: '1', environment: { secrets: { A: '' } } }),
      first.version,
      catalog,
    );
    const late = body({ cpu: '2', environment: { secrets: { A: 'changed' } } });
    await assert.rejects(updateService(alice, late, first.version, catalog), { code: 'old-version' });
    await assert.rejects(updateService(alice, late, 'other' as Version, catalog), { code: 'old-version' });
    const current = await catalog.services.get('demo');
    assert.equal(current?.version, second.version);
    const stored = await catalog.secrets.get('service', `${first.service.namespace}/demo`);
    assert.equal(stored?.values['A']?.reveal(), '1');
  });

  test('a rejected definition changes nothing', async () => {
    await using catalog = open();
    const before = await createService(alice, body(), catalog);
    await assert.rejects(updateService(alice, body({ cpu: '-1' }), undefined, catalog), { code: 'invalid-definition' });
    await assert.rejects(updateService(alice, body({ volume: { mount_path: '/x' } }), undefined, catalog), {
      code: 'not-supported',
    });
    await catalog.settings.write({ allowedImageRepositories: ['other'] });
    await assert.rejects(updateService(alice, body(), undefined, catalog), { code: 'image-refused' });
    assert.equal((await catalog.services.get('demo'))?.version, before.version);
  });

  test('concurrent updates are applied completely: definition and secret are of the same update', async () => {
    await using catalog = open();
    const { service } = await createService(alice, body({ environment: { secrets: { N: 'x' } } }), catalog);
    const one = (n: number) => body({ labels: { n: String(n) }, environment: { secrets: { N: String(n) } } });
    const outcomes = await Promise.allSettled(
      Array.from({ length: 6 }, (_, n) => updateService(alice, one(n), undefined, catalog)),
    );
    assert.ok(outcomes.some(({ status }) => status === 'fulfilled'));
    const current = await catalog.services.get('demo');
    const stored = await catalog.secrets.get('service', `${service.namespace}/demo`);
    assert.equal(stored?.values['N']?.reveal(), current?.service.definition.labels['n']);
  });
});
