import assert from 'node:assert/strict';
import { test } from 'node:test';
import { admin, alice, body } from '../../services/services.fixture.ts';
import { openScene } from '../worker/workers.fixture.ts';
import { ownServices } from './own-services.ts';

const ROLE = { role: 'coordinator', uid: 'u', revision: 1, committed: false } as const;

for (const principal of [admin, alice]) {
  test(`plan: the planned definition for ${principal.kind} equals the created one`, async () => {
    await using scene = openScene();
    const own = ownServices(scene.catalog);
    const given = body({
      isolation_level: 'USER',
      visibility: 'restricted',
      allowed_users: [alice.uid, 'somebody'],
      environment: { variables: { A: '1' }, secrets: { B: '2', refresh_token: 'r' } },
      federation: { topology: 'mesh', members: [{ cluster_id: 'b', service_name: 'x' }] },
    });
    const planned = await own.plan(principal, given, ROLE);
    assert.equal(await scene.get(planned.name), undefined, 'nothing is made by it');
    const { service } = await own.create(principal, given, ROLE);
    assert.deepEqual(planned, service.definition);
    await assert.rejects(own.plan(principal, given, ROLE), { code: 'name-taken' });
  });
}
