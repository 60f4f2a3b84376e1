import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import { Ledgers } from '../ledger.ts';
import { coordination, type World, worldOf } from './coordinator.fixture.ts';
import { type ModelManager, remoteService } from './model-manager.fixture.ts';
import { Clock, type Fault, type Life, type Schedule, Weather } from './weather.fixture.ts';

const faults = fc.array(
  fc.oneof(
    { weight: 3, arbitrary: fc.constant<Fault>('none') },
    { weight: 1, arbitrary: fc.constantFrom<Fault>('before', 'after', 'late') },
  ),
  { maxLength: 30 },
);
export const schedules = fc.record({
  faults,
  crashes: fc.array(fc.record({ write: fc.nat(40), effect: fc.boolean() }), { maxLength: 2 }),
  delay: fc.nat(6),
});

/** The service that a member's cluster has under its name before the test. */
export const places = fc
  .array(fc.constantFrom('nothing', 'own', 'foreign'), { minLength: 1, maxLength: 4 })
  .map((found) =>
    // A service of another user makes the whole create fail, so these must be rare.
    found.map((each, index) => (each === 'foreign' && index % 2 === 0 ? 'nothing' : each)),
  );

export const CLUSTERS = ['a', 'b', 'c', 'd'];

export function worldWith(found: readonly string[]): World {
  const world = worldOf(...CLUSTERS.slice(0, found.length));
  for (const [index, each] of found.entries()) {
    const id = CLUSTERS[index] ?? '';
    if (each !== 'nothing')
      managerOf(world, id).services.set(`demo-${id}`, remoteService(each === 'own' ? 'alice' : 'bob'));
  }
  return world;
}

function managerOf({ managers }: World, id: string): ModelManager {
  const manager = managers.get(id);
  assert.ok(manager);
  return manager;
}

/** The services of users on each cluster. */
export const snapshot = ({ managers }: World): Record<string, unknown> =>
  structuredClone(Object.fromEntries([...managers].map(([id, each]) => [id, each.snapshot()])));

const memberKeys = ({ cluster }: World) => [...cluster.secrets.keys()].filter((key) => key.startsWith('member '));

/** All members are as the coordinator's service defines them, or as they were before. */
export async function assertWhole(world: World, ids: readonly string[], name = 'demo'): Promise<void> {
  const record = world.cluster.services.get(name);
  const role = record?.service.federation;
  assert.ok(record && role?.role === 'coordinator');
  assert.ok(role.committed, 'the service takes work');
  const entry = await new Ledgers(coordination(world)).read(role.uid);
  assert.equal(entry?.ledger.phase, 'active');
  assert.deepEqual(
    entry.ledger.members.map(({ clusterId, state, revision, reason }) => ({ clusterId, state, revision, reason })),
    ids.map((clusterId) => ({ clusterId, state: 'made', revision: role.revision, reason: undefined })),
  );
  for (const member of entry.ledger.members) {
    const worker = managerOf(world, member.clusterId).services.get(member.service)?.worker;
    const { keyId, digest } = member;
    assert.deepEqual(worker, { uid: role.uid, revision: role.revision, digest, keyId });
  }
  assert.equal(memberKeys(world).length, ids.length, 'one key for each member');
}

export function assertNothing(world: World, before: unknown): void {
  assert.deepEqual(snapshot(world), before, 'what was there before is as it was');
  assert.deepEqual([...world.cluster.services.keys()], []);
  assert.deepEqual([...world.cluster.journal.keys()], []);
  assert.deepEqual([...world.cluster.secrets.keys()], []);
}

export const lifeOf = (found: readonly string[], schedule: Schedule): Life => ({
  world: worldWith(found),
  weather: new Weather(schedule),
  clock: new Clock(),
});

export const CALM: Schedule = { faults: [], crashes: [], delay: 0 };
