import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makeTemporaryDirectory, removeTemporaryDirectory } from '../../../test/support/temporary-directory.ts';
import { openLocalCluster } from '../../adapters/sqlite/index.ts';
import { FederationError, PeerError } from '../../peers/index.ts';
import { requireLedgerCapacity } from './align.ts';
import { changeFederation } from './change-federation.ts';
import { createFederation } from './create-federation.ts';
import { type Ledger, Ledgers } from './ledger.ts';
import { alice, coordination, federatedBody, worldOf } from './model/coordinator.fixture.ts';
import { openPassage, type Passage } from './model/model-cluster.fixture.ts';
import { Reconciler } from './reconcile.ts';

/** More than fit into one journal entry. */
const MANY = 400;
const ids = Array.from({ length: 2 * MANY }, (_, index) => `oscar-cluster-${index}-institution`);
const batch = (nth: number) => ids.slice(nth * MANY, (nth + 1) * MANY);

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
  const deps = {
    ...coordination(world, passage, { now: () => clock.now, mostMembers: MANY }),
    journal: cluster.journal,
  };
  await createFederation(alice, federatedBody(batch(0)), deps);
  return {
    deps,
    clock,
    away,
    replaceBy: (nth: number) => changeFederation(alice, federatedBody(batch(nth)), undefined, deps),
    service: () => world.cluster.services.get('demo')?.service,
    workers: (nth: number) => batch(nth).filter((id) => (world.managers.get(id)?.services.size ?? 0) > 0).length,
    async [Symbol.asyncDispose]() {
      await cluster.close();
      removeTemporaryDirectory(directory);
    },
  };
}

test('capacity: 400 unreachable members are replaced by 400 others, and ended when they are reachable', async () => {
  await using scene = await openScene();
  for (const id of batch(0)) scene.away.add(id);
  assert.deepEqual((await scene.replaceBy(1)).pending, []);
  assert.deepEqual([scene.workers(0), scene.workers(1)], [MANY, MANY]);
  scene.away.clear();
  scene.clock.now += 3_600_000;
  const faults: unknown[] = [];
  await new Reconciler(scene.deps, { report: (error) => faults.push(error) }).pass();
  assert.deepEqual(faults, []);
  assert.deepEqual([scene.workers(0), scene.workers(1)], [0, MANY]);
  const entry = await new Ledgers(scene.deps).read(scene.service()?.federation?.uid ?? '');
  assert.equal(entry?.ledger.members.length, MANY);
});

test('capacity: new members that do not fit beside members still to be ended are rejected', () => {
  const wanted = (count: number, name: string) =>
    Array.from({ length: count }, (_, index) => ({ clusterId: `${name}-${index}`, service: 'demo' }));
  const [known, more] = [wanted(3_900, 'old'), wanted(101, 'new')];
  const ledger: Ledger = {
    uid: 'u1',
    service: 'demo',
    serviceUid: '',
    phase: 'active',
    revision: 1,
    begunAt: 0,
    members: known.map((member) => ({
      ...member,
      ...placeOf(member.clusterId),
      endpoint: '',
      keyId: '',
      state: 'made',
      since: 0,
    })),
  };
  assert.throws(
    () => requireLedgerCapacity(ledger, more),
    (error) =>
      error instanceof FederationError &&
      error.code === 'invalid-federation' &&
      /until 3900 removed members are deleted/.test(error.message),
  );
  requireLedgerCapacity(ledger, more.slice(1));
  requireLedgerCapacity(ledger, known.slice(0, 1));
});

test('capacity: a definition with an address that is too long for the ledger is rejected', async () => {
  const world = worldOf(...ids);
  const deps = coordination(world);
  const long = { ...deps, resolve: (id: string) => ({ address: { ...placeOf(id), endpoint: longest(id) } }) };
  await assert.rejects(createFederation(alice, federatedBody(ids.slice(0, 2)), long), /is too long: use a shorter one/);
  assert.equal(world.cluster.journal.size, 0);
});

const placeOf = (clusterId: string) => ({ clusterId, verify: true, guarded: true, kind: 'oscar' as const });
const longest = (id: string) => `https://${id}.example/${'p'.repeat(4_000)}`;
