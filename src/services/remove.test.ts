import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changedIn } from '../lib/changed-in.fixture.ts';
import { createService } from './create.ts';
import { beginIntent, listIntents, toLeftovers } from './intent.ts';
import { recoverServices } from './recover.ts';
import { removeService } from './remove.ts';
import { admin, alice, bob, body, describeCatalog } from './services.fixture.ts';

const secret = body({
  environment: { secrets: { A: '1' } },
  clusters: { b: { endpoint: 'https://b.example', auth_password: 'pw' } },
});

describeCatalog('remove: services', (open) => {
  test('definition, secrets and name are gone', async () => {
    await using catalog = open();
    const first = await createService(alice, secret, catalog);
    await removeService(alice, 'demo', undefined, catalog);
    assert.equal(await catalog.services.get('demo'), undefined);
    assert.deepEqual((await catalog.secrets.keys('service')).items, []);
    assert.deepEqual((await catalog.secrets.keys('credentials')).items, []);
    assert.deepEqual(await Array.fromAsync(listIntents(catalog.journal)), []);
    const second = await createService(bob, body(), catalog);
    assert.notEqual(second.service.uid, first.service.uid);
  });

  test('only the owner and the administrator may remove it', async () => {
    await using catalog = open();
    await createService(alice, body({ name: 'hidden' }), catalog);
    await createService(alice, body({ name: 'shown', visibility: 'public' }), catalog);
    await assert.rejects(removeService(bob, 'hidden', undefined, catalog), { code: 'not-found' });
    await assert.rejects(removeService(bob, 'shown', undefined, catalog), { code: 'not-allowed' });
    await assert.rejects(removeService(admin, 'nope', undefined, catalog), { code: 'not-found' });
    await removeService(admin, 'hidden', undefined, catalog);
    await removeService(alice, 'shown', undefined, catalog);
  });

  test('an administrator may give the namespace; users cannot', async () => {
    await using catalog = open();
    const { service } = await createService(alice, body(), catalog);
    await assert.rejects(removeService(admin, 'demo', 'elsewhere', catalog), { code: 'not-found' });
    await removeService(admin, 'demo', service.namespace, catalog);
    await createService(alice, body(), catalog);
    await removeService(alice, 'demo', 'elsewhere', catalog);
  });

  test('of two concurrent removals, one succeeds and the other gets not found', async () => {
    await using catalog = open();
    await createService(alice, secret, catalog);
    const outcomes = await Promise.allSettled([1, 2].map(() => removeService(alice, 'demo', undefined, catalog)));
    assert.deepEqual(outcomes.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected']);
    const rejected = outcomes.find((outcome) => outcome.status === 'rejected');
    assert.equal(rejected?.reason.code, 'not-found');
    assert.deepEqual((await catalog.secrets.keys('service')).items, []);
  });
});

describeCatalog('recover: services after a crash', (open) => {
  const later = () => Date.now() + 60_000;

  test('a service that cannot be recovered now is reported, and the others are recovered', async () => {
    await using catalog = open();
    const made = [await createService(alice, body({ name: 'one' }), catalog)];
    made.push(await createService(alice, body({ name: 'two' }), catalog));
    for (const { service } of made) await beginIntent('remove', toLeftovers(service), catalog.journal, Date.now());
    for (const { service, version } of made) await catalog.services.remove(service.definition.name, version);
    const forgotten: string[] = [];
    const forgetJobs = async (uid: string) => {
      if (forgotten.push(uid) === 1) throw new Error('the store is away');
    };
    await assert.rejects(recoverServices(later(), { ...catalog, forgetJobs }), /the store is away/);
    assert.equal(forgotten.length, 2);
    assert.equal((await Array.fromAsync(listIntents(catalog.journal))).length, 1);
  });

  test('an unfinished service leaves no secrets', async () => {
    await using catalog = open();
    const { service } = await createService(alice, secret, catalog);
    const owner = { ...toLeftovers(service), uid: 'unfinished', name: 'unfinished' };
    await beginIntent('create', owner, catalog.journal, Date.now());
    await catalog.secrets.put('service', `${owner.namespace}/unfinished`, { A: service.token });
    await catalog.secrets.put('credentials', 'unfinished', { A: service.token });

    assert.equal(await recoverServices(later(), catalog), 1);
    assert.deepEqual((await catalog.secrets.keys('service')).items, [`${service.namespace}/demo`]);
    assert.deepEqual((await catalog.secrets.keys('credentials')).items, [service.uid]);
    assert.equal(await recoverServices(later(), catalog), 0);
  });

  test('a finished service keeps everything', async () => {
    await using catalog = open();
    const { service } = await createService(alice, secret, catalog);
    await beginIntent('create', toLeftovers(service), catalog.journal, Date.now());
    assert.equal(await recoverServices(later(), catalog), 1);
    assert.ok(await catalog.secrets.get('service', `${service.namespace}/demo`));
    assert.ok(await catalog.secrets.get('credentials', service.uid));
  });

  test('a finished service does not keep its name reserved', async () => {
    await using catalog = open();
    const { service } = await createService(alice, secret, catalog);
    await beginIntent('create', toLeftovers(service), catalog.journal, Date.now());
    const released: unknown[] = [];
    const services = changedIn(catalog.services, { release: async (it) => void released.push(it) });
    await recoverServices(later(), { ...catalog, services });
    assert.deepEqual(released, [{ name: 'demo', uid: service.uid }]);
  });

  test('an interrupted removal does not touch a new service of that name', async () => {
    await using catalog = open();
    const first = await createService(alice, secret, catalog);
    await removeService(alice, 'demo', undefined, catalog);
    await beginIntent('remove', toLeftovers(first.service), catalog.journal, Date.now());
    const second = await createService(alice, secret, catalog);
    assert.equal(await recoverServices(later(), catalog), 1);
    assert.ok(await catalog.secrets.get('service', `${second.service.namespace}/demo`));
    assert.ok(await catalog.secrets.get('credentials', second.service.uid));
  });

  test('an operation that began recently may still be running, and is left alone', async () => {
    await using catalog = open();
    const { service } = await createService(alice, secret, catalog);
    await beginIntent('create', { ...toLeftovers(service), uid: 'u' }, catalog.journal, Date.now());
    assert.equal(await recoverServices(Date.now() - 60_000, catalog), 0);
  });
});
