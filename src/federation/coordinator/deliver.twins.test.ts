import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import { parseMembersChange } from '../members.ts';
import { states } from './change-federation.fixture.ts';
import { changeMembers } from './change-federation.ts';
import { createFederation } from './create-federation.ts';
import { alice, coordination, federatedBody, type World, worldOf } from './model/coordinator.fixture.ts';
import { openPassage } from './model/model-cluster.fixture.ts';
import { remoteService } from './model/model-manager.fixture.ts';
import { Reconciler } from './reconcile.ts';

describe('twins: two ids of one cluster', () => {
  const named = (clusterId: string, service: string) => ({ cluster_id: clusterId, service_name: service });
  const add = (...members: object[]) => parseMembersChange('POST', { members });

  /** `b` and `twin` are the same manager. */
  async function twins(...members: object[]) {
    const { cluster, managers } = worldOf('b');
    const manager = managers.get('b');
    assert.ok(manager);
    const world: World = { cluster, managers: new Map(['b', 'twin'].map((id) => [id, manager])) };
    let time = Date.now();
    const deps = coordination(world, openPassage, { now: () => time, getOwnerToken: async () => new Secret('minted') });
    await createFederation(alice, { ...federatedBody([]), federation: { topology: 'star', members } }, deps);
    const reconciler = new Reconciler(deps);
    const pass = async () => {
      time += 3_600_000;
      await reconciler.pass();
    };
    return { world, manager, deps, pass };
  }

  test('two different services are two members', async () => {
    const { world, deps, pass } = await twins(named('b', 'x'));
    const { pending } = await changeMembers(alice, 'demo', add(named('twin', 'y')), deps);
    assert.deepEqual(pending, []);
    await pass();
    assert.deepEqual(await states(world), { 'b/x': 'made', 'twin/y': 'made' });
  });

  test('the same service twice is a conflict of the later member, and the worker stays as it is', async () => {
    const { world, manager, deps, pass } = await twins(named('b', 'x'));
    const { pending } = await changeMembers(alice, 'demo', add(named('twin', 'x')), deps);
    assert.deepEqual(pending, [
      { member: 'twin/x', reason: 'it is the same service on the same manager as b/x: remove it' },
    ]);
    const before = manager.services.get('x');
    await pass();
    await pass();
    assert.equal(manager.services.get('x'), before);
    assert.deepEqual(await states(world), { 'b/x': 'made', 'twin/x': 'conflict' });
    await changeMembers(alice, 'demo', parseMembersChange('DELETE', { members: [named('twin', 'x')] }), deps);
    assert.equal(manager.services.get('x')?.worker?.keyId, before?.worker?.keyId);
    assert.deepEqual(await states(world), { 'b/x': 'made' });
  });

  test('if both are added together, exactly one becomes the member', async () => {
    const { world, manager, deps, pass } = await twins(named('b', 'y'));
    await changeMembers(alice, 'demo', add(named('b', 'x'), named('twin', 'x')), deps);
    await pass();
    const settled = await states(world);
    assert.deepEqual(Object.values(settled).toSorted(), ['conflict', 'made', 'made']);
    const before = manager.services.get('x');
    await pass();
    await pass();
    assert.equal(manager.services.get('x'), before);
    assert.deepEqual(await states(world), settled);
  });

  test('the coordinator is not a member of its own service under another id', async () => {
    const { world, manager, deps } = await twins(named('b', 'x'));
    const here = { ...deps.here, instance: manager.instance };
    manager.services.set('demo', remoteService('alice'));
    const { pending } = await changeMembers(alice, 'demo', add(named('twin', 'demo')), { ...deps, here });
    assert.match(pending[0]?.reason ?? '', /it is the service itself under another id of this cluster/);
    assert.deepEqual(await states(world), { 'b/x': 'made', 'twin/demo': 'conflict' });
  });
});
