import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../ports/conformance/eventually.ts';
import { createService } from './create.ts';
import { listServices } from './read.ts';
import { admin, alice, bob, body, describeCatalog } from './services.fixture.ts';

describeCatalog('list: services', (open) => {
  test('each user sees own, public and shared services, in the order of the Go manager', async () => {
    await using catalog = open();
    await createService(admin, body({ name: 'of-admin' }), catalog);
    await createService(alice, body({ name: 'private' }), catalog);
    await createService(alice, body({ name: 'public', visibility: 'public' }), catalog);
    await createService(alice, body({ name: 'shared', visibility: 'restricted', allowed_users: [bob.uid] }), catalog);
    await createService(alice, body({ name: 'listed', allowed_users: [bob.uid] }), catalog);
    const expected: [typeof admin | typeof bob, string[]][] = [
      [admin, ['listed', 'private', 'public', 'shared', 'of-admin']],
      [alice, ['listed', 'private', 'public', 'shared']],
      [bob, ['public', 'shared']],
    ];
    for (const [who, names] of expected) {
      const leaked = new Set<string>();
      await eventually(async () => {
        const seen = (await listServices(who, catalog)).map(({ service }) => service.definition.name);
        for (const name of seen) if (!names.includes(name)) leaked.add(name);
        assert.deepEqual(seen, names);
      });
      assert.deepEqual([...leaked], [], 'a list may lag behind, but shows nothing that it must not');
    }
  });

  test('a list longer than a page is complete', async () => {
    await using catalog = open();
    const names = Array.from({ length: 620 }, (_, i) => `svc-${String(i).padStart(4, '0')}`);
    await Promise.all(names.map((name) => createService(alice, body({ name }), catalog)));
    await eventually(async () => assert.equal((await listServices(alice, catalog)).length, names.length));
  });
});
