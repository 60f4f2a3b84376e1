import assert from 'node:assert/strict';
import { test } from 'node:test';
import { attachGrant, detachGrants, findGrant } from '../identity/index.ts';
import { changedIn } from '../lib/changed-in.fixture.ts';
import { Secret } from '../lib/secret.ts';
import { GRANT_SLOT, present, REFRESH_TOKEN_SLOT } from '../model/service/index.ts';
import { listAllPages, StoreError } from '../ports/index.ts';
import { createService } from './create.ts';
import { beginIntent, toLeftovers } from './intent.ts';
import { recoverServices } from './recover.ts';
import { removeService } from './remove.ts';
import { admin, alice, bob, body, describeCatalog } from './services.fixture.ts';
import type { Services } from './services.ts';
import { updateService } from './update.ts';

/** A definition with a refresh token. */
const federated = (refresh_token: string, more: Record<string, unknown> = {}) =>
  body({ federation: { topology: 'star' }, environment: { secrets: { refresh_token, A: '1' } }, ...more });

const inVault = async ({ secrets }: Pick<Services, 'secrets'>) =>
  (await listAllPages((cursor) => secrets.keys('grant', cursor))).flat();

/** The refresh token of the service's grant. */
async function tokenOf(name: string, catalog: Services): Promise<string | undefined> {
  const record = await catalog.services.get(name);
  assert.ok(record);
  return (await findGrant(record.service, catalog))?.token?.reveal();
}

/** All stored values outside the vault. */
async function elsewhere({ secrets }: Pick<Services, 'secrets'>): Promise<string[]> {
  const values: string[] = [];
  for (const room of ['service', 'credentials'] as const) {
    for (const key of (await listAllPages((cursor) => secrets.keys(room, cursor))).flat()) {
      const record = await secrets.get(room, key);
      values.push(...Object.values(record?.values ?? {}).map((secret) => secret.reveal()));
    }
  }
  return values;
}

describeCatalog('grant: the refresh token of a service', (open) => {
  test('it is stored in the vault only; the service keeps the id of the grant', async () => {
    await using catalog = open();
    const { service } = await createService(alice, federated('rt'), catalog);
    const { grant } = (await findGrant(service, catalog)) ?? {};
    assert.equal(grant?.owner, alice.uid);
    assert.deepEqual(grant?.services, [service.uid]);
    assert.equal(await tokenOf('demo', catalog), 'rt');
    assert.deepEqual((await elsewhere(catalog)).toSorted(), ['1', grant?.id].toSorted());
  });

  test('without a federation it stays with the script, and moves to the vault with the first member', async () => {
    await using catalog = open();
    await createService(alice, federated('rt', { federation: undefined }), catalog);
    assert.deepEqual(await inVault(catalog), []);
    await updateService(alice, federated(''), undefined, catalog);
    assert.equal(await tokenOf('demo', catalog), 'rt');
    assert.ok(!(await elsewhere(catalog)).includes('rt'));
  });

  test('a token of another user is rejected, and nothing is created or changed', async () => {
    await using catalog = open();
    await createService(alice, federated('rt'), catalog);
    const before = await inVault(catalog);
    const his = federated('rt', { name: 'his' });
    await assert.rejects(createService(bob, his, catalog), { code: 'grant-refused' });
    assert.equal(await catalog.services.get('his'), undefined);
    const { version } = await createService(bob, federated('other', { name: 'his' }), catalog);
    await assert.rejects(updateService(bob, his, undefined, catalog), { code: 'grant-refused' });
    assert.equal((await catalog.services.get('his'))?.version, version);
    assert.equal(await tokenOf('his', catalog), 'other');
    await removeService(bob, 'his', undefined, catalog);
    assert.deepEqual(await inVault(catalog), before);
  });

  test('all services with the same token share one grant', async () => {
    await using catalog = open();
    const made = await createService(alice, federated('rt'), catalog);
    const other = await createService(alice, federated('rt', { name: 'other' }), catalog);
    const [first, second] = [await findGrant(made.service, catalog), await findGrant(other.service, catalog)];
    assert.equal(first?.grant.id, second?.grant.id);
    await removeService(alice, 'demo', undefined, catalog);
    assert.equal(await tokenOf('other', catalog), 'rt');
  });

  test('it stays if an update repeats what was read, or omits it', async () => {
    await using catalog = open();
    const { service } = await createService(alice, federated('rt'), catalog);
    const before = await inVault(catalog);
    const store = { endpoint: 'http://store.example', verify: true, region: 'r' };
    const shown = present(service, { store, showToken: true });
    for (const who of [alice, admin]) {
      for (const again of [shown, federated(''), body({ federation: {} })]) {
        await updateService(who, again, undefined, catalog);
        assert.equal(await tokenOf('demo', catalog), 'rt');
      }
    }
    assert.deepEqual(await inVault(catalog), before);
  });

  test('a new token replaces it, and the old one is deleted', async () => {
    await using catalog = open();
    await createService(alice, federated('rt'), catalog);
    const count = (await inVault(catalog)).length;
    await updateService(alice, federated('new'), undefined, catalog);
    assert.equal(await tokenOf('demo', catalog), 'new');
    assert.equal((await inVault(catalog)).length, count);
    await createService(bob, federated('rt', { name: 'his' }), catalog);
  });

  test('it is deleted with the federation, and with the service', async () => {
    await using catalog = open();
    await createService(alice, federated('rt'), catalog);
    await updateService(alice, body(), undefined, catalog);
    assert.deepEqual(await inVault(catalog), []);
    await updateService(alice, federated('rt'), undefined, catalog);
    assert.equal(await tokenOf('demo', catalog), 'rt');
    await removeService(alice, 'demo', undefined, catalog);
    assert.deepEqual(await inVault(catalog), []);
  });

  test('it is not stored if the service could not be created or updated', async () => {
    await using catalog = open();
    const away = () => Promise.reject(new StoreError('unavailable', 'the store is away'));
    const broken = (method: 'create' | 'replace') => ({
      ...catalog,
      services: changedIn(catalog.services, { [method]: away }),
    });
    await assert.rejects(createService(alice, federated('rt'), broken('create')), { code: 'unavailable' });
    assert.deepEqual(await inVault(catalog), []);
    await createService(alice, federated('rt'), catalog);
    const before = await inVault(catalog);
    await assert.rejects(updateService(alice, federated('new'), undefined, broken('replace')), { code: 'unavailable' });
    assert.equal(await tokenOf('demo', catalog), 'rt');
    assert.deepEqual(await inVault(catalog), before);
  });

  test('after a crash, the grant of an unfinished service is deleted', async () => {
    await using catalog = open();
    const { service } = await createService(alice, body(), catalog);
    const unfinished = { ...toLeftovers(service), uid: 'unfinished', name: 'unfinished' };
    await beginIntent('create', unfinished, catalog.journal, Date.now());
    await attachGrant(new Secret('rt'), alice, 'unfinished', catalog);
    assert.notDeepEqual(await inVault(catalog), []);
    assert.equal(await recoverServices(Date.now() + 60_000, catalog), 1);
    assert.deepEqual(await inVault(catalog), []);
  });

  test('after a crash, the grant of an interrupted removal is deleted too', async () => {
    await using catalog = open();
    const { service, version } = await createService(alice, federated('rt'), catalog);
    await beginIntent('remove', toLeftovers(service), catalog.journal, Date.now());
    await catalog.services.remove('demo', version);
    assert.equal(await recoverServices(Date.now() + 60_000, catalog), 1);
    assert.deepEqual(await inVault(catalog), []);
  });

  test('a token that an earlier manager stored with the service moves to the vault with the next update', async () => {
    await using catalog = open();
    const { service } = await createService(alice, federated(''), catalog);
    await catalog.secrets.put('credentials', service.uid, { [REFRESH_TOKEN_SLOT]: new Secret('rt') });
    await updateService(alice, federated(''), undefined, catalog);
    const { values = {} } = (await catalog.secrets.get('credentials', service.uid)) ?? {};
    assert.deepEqual(Object.keys(values), [GRANT_SLOT]);
    assert.equal(await tokenOf('demo', catalog), 'rt');
  });

  test('after concurrent updates the grant is that of the definition, and the others are deleted', async () => {
    await using catalog = open();
    await createService(alice, federated('rt'), catalog);
    const count = (await inVault(catalog)).length;
    const one = (n: number) =>
      updateService(alice, federated(`rt-${n}`, { labels: { n: `${n}` } }), undefined, catalog);
    const outcomes = await Promise.allSettled(Array.from({ length: 6 }, (_, n) => one(n)));
    assert.ok(outcomes.some(({ status }) => status === 'fulfilled'));
    const current = await catalog.services.get('demo');
    assert.equal(await tokenOf('demo', catalog), `rt-${current?.service.definition.labels['n']}`);
    assert.equal((await inVault(catalog)).length, count);
  });

  test('it exists even if another update released the grant before the service named it', async () => {
    await using catalog = open();
    const { service } = await createService(alice, federated('rt'), catalog);
    let isFirst = true;
    const { secrets } = catalog;
    const interrupted: typeof secrets = {
      get: (room, key) => secrets.get(room, key),
      keys: (room, cursor) => secrets.keys(room, cursor),
      remove: (room, key) => secrets.remove(room, key),
      async put(room, key, values, expected) {
        if (room === 'credentials' && isFirst) {
          isFirst = false;
          await detachGrants(service.uid, catalog);
        }
        return secrets.put(room, key, values, expected);
      },
    };
    await updateService(alice, federated('new'), undefined, { ...catalog, secrets: interrupted });
    assert.equal(isFirst, false);
    assert.equal(await tokenOf('demo', catalog), 'new');
  });

  test('a token that arrives while the service is removed is deleted with it', async () => {
    await using catalog = open();
    for (let round = 0; round < 5; round++) {
      await createService(alice, body(), catalog);
      await Promise.allSettled([
        updateService(alice, federated('rt'), undefined, catalog),
        removeService(alice, 'demo', undefined, catalog),
      ]);
      if (await catalog.services.get('demo')) await removeService(alice, 'demo', undefined, catalog);
      assert.deepEqual(await inVault(catalog), []);
      assert.ok(!(await elsewhere(catalog)).includes('rt'));
    }
  });
});
