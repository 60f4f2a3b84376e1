import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../../test/support/temporary-directory.ts';
import { EmbeddedStore } from '../adapters/object-stores/embedded/index.ts';
import { changedIn } from '../lib/changed-in.fixture.ts';
import { Seal, Secret } from '../lib/secret.ts';
import { openObjectStore } from '../s3-server/index.ts';
import { createService } from './create.ts';
import { removeService } from './remove.ts';
import { alice, body, describeCatalog } from './services.fixture.ts';

describeCatalog('remove: the bucket of a removed service', (open) => {
  test('it is kept for another service that uses it, even if a watch does not show that service yet', async (t) => {
    await using cluster = open();
    const server = openObjectStore({
      directory: join(temporaryDirectory(t), 'objects'),
      region: 'us-east-1',
      manager: { accessKey: 'oscar', secret: new Secret('manager-secret') },
      seal: new Seal(Buffer.alloc(32, 7)),
    });
    t.after(() => server.close());
    const objects = new EmbeddedStore({ server, endpoint: 'http://127.0.0.1' });
    const catalog = { ...cluster, objects };
    const reads = { input: [{ storage_provider: 'minio.default', path: 'photos/in' }] };
    await createService(alice, body({ name: 'first', ...reads }), catalog);
    const { service: second } = await createService(alice, body({ name: 'second', ...reads }), catalog);
    const services = changedIn(cluster.services, {
      list: async (query) => (query.fresh ? cluster.services.list(query) : { items: [] }),
    });
    await removeService(alice, 'first', undefined, { ...catalog, services });
    assert.equal((await objects.bucket('photos'))?.madeFor?.uid, second.uid);
    await removeService(alice, 'second', undefined, { ...catalog, services });
    assert.equal(await objects.bucket('photos'), undefined);
  });
});
