import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Service } from '../../model/service/index.ts';
import { createFederation } from './create-federation.ts';
import { Ledgers } from './ledger.ts';
import { alice, coordination, federatedBody, worldOf } from './model/coordinator.fixture.ts';
import { Crash, openPassage, type Passage } from './model/model-cluster.fixture.ts';
import { Reconciler, recoverFederations } from './reconcile.ts';

/** Crashes after the given request has taken effect. */
function dyingAfter(call: string): Passage {
  let isDead = false;
  const live = <T>(effect: () => T): T => {
    if (isDead) throw new Crash();
    return effect();
  };
  return {
    write: live,
    request: (_cluster, kind, effect) =>
      live(() => {
        const answer = effect();
        isDead = kind === call;
        return answer;
      }),
  };
}

const NOON = 43_200_000;

async function died() {
  const world = worldOf('b', 'c');
  const deps = coordination(world, dyingAfter('create'), { now: () => NOON });
  await assert.rejects(createFederation(alice, federatedBody(['b', 'c']), deps));
  assert.ok(world.managers.get('b')?.services.size, 'a member was made');
  return world;
}

const isEmpty = ({ cluster, managers }: Awaited<ReturnType<typeof died>>) =>
  [cluster.services, cluster.journal, cluster.secrets, ...[...managers.values()].map((each) => each.services)].every(
    ({ size }) => size === 0,
  );

test('recover: a create that was not committed is rolled back', async () => {
  const world = await died();
  await recoverFederations(NOON + 1, coordination(world));
  assert.ok(isEmpty(world));
});

test('recover: a create that another manager may be executing is left alone', async () => {
  const world = await died();
  await recoverFederations(NOON, coordination(world));
  const [entry] = await Array.fromAsync(new Ledgers(coordination(world)).all());
  assert.equal(entry?.ledger.phase, 'creating');
});

test('recover: a removal is left to the reconciler, so that recovery does not wait for silent members', async () => {
  const world = await died();
  const deps = coordination(world);
  const [entry] = await Array.fromAsync(new Ledgers(deps).all());
  assert.ok(entry);
  const members = entry.ledger.members.map((member) => ({ ...member, state: 'undoing' as const }));
  await new Ledgers(deps).advance(entry, { ...entry.ledger, phase: 'ending', members });
  const silent = { at: () => assert.fail('a member was asked') };
  await recoverFederations(NOON + 1, { ...deps, peers: silent });
  await new Reconciler(deps).pass();
  assert.ok(isEmpty(world));
});

test('recover: a federation that cannot be recovered is reported, and the others are recovered', async () => {
  const world = worldOf('b', 'c');
  for (const name of ['bad', 'good']) {
    const deps = coordination(world, dyingAfter('create'), { now: () => NOON });
    const body = { ...federatedBody([]), name };
    const members = [{ cluster_id: 'b', service_name: `${name}-b` }];
    await assert.rejects(createFederation(alice, { ...body, federation: { topology: 'star', members } }, deps));
  }
  const deps = coordination(world);
  const entries = await Array.fromAsync(new Ledgers(deps).all());
  const bad = entries.find(({ ledger }) => ledger.service === 'bad')?.ledger.uid;
  const own = {
    ...deps.own,
    remove: async (service: Service) => {
      if (service.definition.name === 'bad') throw new Error('the store is away');
      await deps.own.remove(service);
    },
  };
  const told: string[] = [];
  await recoverFederations(NOON + 1, { ...deps, own }, (_error, uid) => told.push(uid));
  assert.deepEqual(told, [bad]);
  assert.ok(!world.cluster.services.has('good'));
  assert.equal(world.managers.get('b')?.services.size, 0);
  await new Reconciler(deps).pass();
  assert.ok(isEmpty(world));
});

test('recover: a service of another federation with the same name stays', async () => {
  const world = await died();
  const deps = coordination(world);
  const current = await deps.services.get('demo');
  assert.ok(current);
  const federation = { role: 'coordinator', uid: 'another', revision: 1, committed: true } as const;
  await deps.services.replace({ ...current.service, federation }, current.version);
  await recoverFederations(NOON + 1, deps);
  assert.equal(world.cluster.services.size, 1);
  assert.equal(world.cluster.journal.size, 0);
});

test('recover: a service that is committed only in its ledger becomes committed and accepts jobs', async () => {
  const world = worldOf('b');
  const deps = coordination(world);
  const { record } = await createFederation(alice, federatedBody(['b']), deps);
  const role = record.service.federation;
  assert.ok(role?.role === 'coordinator');
  await deps.services.replace({ ...record.service, federation: { ...role, committed: false } }, record.version);
  await recoverFederations(0, deps);
  assert.deepEqual(world.cluster.services.get('demo')?.service.federation, role);
});

test('recover: a service that was created after its create was abandoned is removed', async () => {
  const world = await died();
  world.cluster.journal.clear();
  await recoverFederations(0, coordination(world, openPassage));
  assert.equal(world.cluster.services.size, 0);
});
