import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makeTemporaryDirectory, removeTemporaryDirectory } from '../../../test/support/temporary-directory.ts';
import { openLocalCluster } from '../../adapters/sqlite/index.ts';
import { FederationError, PeerError } from '../../peers/index.ts';
import { parseMembersChange } from '../members.ts';
import { changeFederation, changeMembers } from './change-federation.ts';
import { createFederation } from './create-federation.ts';
import { Ledgers } from './ledger.ts';
import { alice, coordination, federatedBody, memberOn, worldOf } from './model/coordinator.fixture.ts';
import { openPassage, type Passage } from './model/model-cluster.fixture.ts';
import { Reconciler } from './reconcile.ts';

const MOST = 100;
const ids = Array.from({ length: 4 * MOST }, (_, index) => `oscar-cluster-${index}-institution`);
const hundred = (nth: number) => ids.slice(nth * MOST, (nth + 1) * MOST);

/** A federation in a real journal. The test can make its created members unreachable. */
async function openScene() {
  const directory = makeTemporaryDirectory();
  const cluster = openLocalCluster({ directory });
  const world = worldOf(...ids);
  const clock = { now: Date.UTC(2026, 0, 1) };
  const away = new Set<string>();
  const passage: Passage = {
    ...openPassage,
    request: (id, _call, effect) => {
      if (!away.has(id)) return effect();
      throw new PeerError('unreachable', `cluster "${id}": "${id}.example" cannot be reached: no answer in time`);
    },
  };
  const deps = { ...coordination(world, passage, { now: () => clock.now }), journal: cluster.journal };
  await createFederation(alice, federatedBody(hundred(0)), deps);
  return {
    deps,
    clock,
    away,
    replaceBy: (nth: number) => changeFederation(alice, federatedBody(hundred(nth)), undefined, deps),
    service: () => world.cluster.services.get('demo')?.service,
    workers: (nth: number) => hundred(nth).filter((id) => (world.managers.get(id)?.services.size ?? 0) > 0).length,
    async [Symbol.asyncDispose]() {
      await cluster.close();
      removeTemporaryDirectory(directory);
    },
  };
}

test('capacity: a hundred unreachable members are replaced by a hundred others, and ended when they are reachable', async () => {
  await using scene = await openScene();
  for (const id of hundred(0)) scene.away.add(id);
  assert.deepEqual((await scene.replaceBy(1)).pending, []);
  assert.deepEqual([scene.workers(0), scene.workers(1)], [MOST, MOST]);
  scene.away.clear();
  scene.clock.now += 3_600_000;
  const faults: unknown[] = [];
  await new Reconciler(scene.deps, { report: (error) => faults.push(error) }).pass();
  assert.deepEqual(faults, []);
  assert.deepEqual([scene.workers(0), scene.workers(1)], [0, MOST]);
  const entry = await new Ledgers(scene.deps).read(scene.service()?.federation?.uid ?? '');
  assert.equal(entry?.ledger.members.length, MOST);
});

test('capacity: new members that do not fit beside members still to be ended are rejected before anything is stored', async () => {
  await using scene = await openScene();
  for (const id of ids) if (!hundred(3).includes(id)) scene.away.add(id);
  await scene.replaceBy(1);
  const before = scene.service()?.federation?.revision;
  await assert.rejects(
    scene.replaceBy(3),
    (error) =>
      error instanceof FederationError &&
      error.code === 'invalid-federation' &&
      /until 200 removed members are deleted/.test(error.message),
  );
  assert.equal(scene.service()?.federation?.revision, before);
  assert.equal(scene.workers(3), 0);
  const all = parseMembersChange('DELETE', { members: hundred(1).map(memberOn) });
  await changeMembers(alice, 'demo', all, scene.deps);
  assert.equal(scene.service()?.definition.federation?.members, undefined, 'who only removes members is not refused');
});

test('capacity: a definition whose members do not fit into the ledger is rejected', async () => {
  const world = worldOf(...ids);
  const deps = coordination(world);
  const long = { ...deps, resolve: (id: string) => ({ address: { ...placeOf(id), endpoint: longest(id) } }) };
  await assert.rejects(createFederation(alice, federatedBody(hundred(0)), long), /has no room for 100 members/);
  assert.equal(world.cluster.journal.size, 0);
});

const placeOf = (clusterId: string) => ({ clusterId, verify: true, guarded: true, kind: 'oscar' as const });
const longest = (id: string) => `https://${id}.example/${'p'.repeat(2_000)}`;
