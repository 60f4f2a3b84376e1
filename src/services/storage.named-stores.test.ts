import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openNamedStore } from '../adapters/object-stores/s3/named-stores.fixture.ts';
import { createService } from './create.ts';
import { beginIntent, toLeftovers } from './intent.ts';
import { recoverServices } from './recover.ts';
import { alice, body, describeCatalog } from './services.fixture.ts';

const later = () => Date.now() + 1_000;
const writing = (name: string) =>
  body({ name, output: [{ storage_provider: 'minio.shared', path: `${name}-results/out` }] });

describeCatalog('storage: buckets of named stores', (open) => {
  test('recover: an interrupted create leaves no bucket at a named store, a finished one keeps its own', async (t) => {
    await using given = open();
    const { server, stores } = await openNamedStore(t);
    const catalog = { ...given, providers: stores };
    const { service } = await createService(alice, writing('finished'), catalog);
    await beginIntent('create', toLeftovers(service), catalog.journal, Date.now());

    const cut = await createService(alice, writing('cut-off'), catalog);
    await beginIntent('create', toLeftovers(cut.service), catalog.journal, Date.now());
    await given.services.remove('cut-off', cut.version);
    assert.ok(server.describeBucket('cut-off-results'));

    assert.equal(await recoverServices(later(), catalog), 2);
    assert.equal(server.describeBucket('cut-off-results'), undefined);
    assert.ok(server.describeBucket('finished-results'));
  });

  test('recover: an intent of an earlier version, which has no named stores, is completed', async () => {
    await using catalog = open();
    const { service } = await createService(alice, body(), catalog);
    const { remote: _, subscriptions, ...known } = toLeftovers(service);
    await catalog.journal.begin('service/remove/old', {
      ...known,
      subscriptions: [...subscriptions],
      begun: 0,
    } as never);
    assert.equal(await recoverServices(later(), catalog), 1);
  });
});
