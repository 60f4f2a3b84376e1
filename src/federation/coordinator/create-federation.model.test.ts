import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { parseMembersChange } from '../members.ts';
import { changeFederation, changeMembers } from './change-federation.ts';
import type { Coordination } from './coordination.ts';
import { createFederation } from './create-federation.ts';
import { alice, federatedBody, memberOn } from './model/coordinator.fixture.ts';
import { attempt, Clock, type Life, live, quieten, type Schedule, Weather } from './model/weather.fixture.ts';
import {
  assertNothing,
  assertWhole,
  CALM,
  CLUSTERS,
  lifeOf,
  places,
  schedules,
  snapshot,
  worldWith,
} from './model/whole.fixture.ts';
import { Reconciler } from './reconcile.ts';
import { removeFederation } from './remove-federation.ts';

const RUNS = 20 * Number(process.env['OSCAR_TEST_ROUNDS'] ?? 5);

test('create: a federation is created completely or not at all, whatever fails, is late or crashes', async () => {
  await fc.assert(
    fc.asyncProperty(places, schedules, async (found, schedule) => {
      const life = lifeOf(found, schedule);
      const before = snapshot(life.world);
      const ids = CLUSTERS.slice(0, found.length);
      const outcome = await attempt(life, (deps) => createFederation(alice, federatedBody(ids), deps));
      await quieten(life);
      const isThere = life.world.cluster.services.has('demo');
      if (outcome !== 'died') assert.equal(isThere, outcome === 'done', 'the user was told the truth');
      if (isThere) await assertWhole(life.world, ids);
      else assertNothing(life.world, before);
    }),
    { numRuns: RUNS },
  );
});

/** A federation that was created without faults, and the state before it. */
async function madeOf(
  found: readonly string[],
  schedule: Schedule,
): Promise<{ life: Life; before: Record<string, unknown> }> {
  const world = worldWith(found.map((each) => (each === 'foreign' ? 'nothing' : each)));
  const before = snapshot(world);
  const ids = CLUSTERS.slice(0, found.length);
  await createFederation(alice, federatedBody(ids), live({ world, weather: new Weather(CALM), clock: new Clock() }));
  return { life: { world, weather: new Weather(schedule), clock: new Clock() }, before };
}

const someIds = fc.uniqueArray(fc.constantFrom(...CLUSTERS), { minLength: 1, maxLength: 3 });
const steps = fc.array(
  fc.oneof(
    fc.record({ verb: fc.constant('script' as const), script: fc.stringMatching(/^[a-z]{3,8}$/) }),
    fc.record({ verb: fc.constantFrom('POST' as const, 'DELETE' as const), ids: someIds }),
  ),
  { minLength: 1, maxLength: 4 },
);

type Step = typeof steps extends fc.Arbitrary<(infer S)[]> ? S : never;

async function take(step: Step, known: readonly string[], deps: Coordination): Promise<void> {
  if (step.verb === 'script') {
    await changeFederation(alice, { ...federatedBody([]), script: step.script }, undefined, deps);
    return;
  }
  const members = step.ids.filter((id) => known.includes(id)).map(memberOn);
  if (members.length > 0) await changeMembers(alice, 'demo', parseMembersChange(step.verb, { members }), deps);
}

/** Every member of the definition is as defined, and everything else is as it was before. */
async function assertCurrent({ world }: Life, before: Record<string, unknown>): Promise<void> {
  const definition = world.cluster.services.get('demo')?.service.definition;
  const current = (definition?.federation?.members ?? []).map(({ cluster_id }) => cluster_id);
  await assertWhole(world, current);
  for (const [id, manager] of world.managers) {
    if (!current.includes(id)) assert.deepEqual(manager.snapshot(), before[id]);
    else assert.equal(JSON.parse(manager.services.get(`demo-${id}`)?.body ?? '').script, definition?.script);
  }
}

test('change: after any changes all members have the newest revision, and removed ones are restored', async () => {
  await fc.assert(
    fc.asyncProperty(places, schedules, steps, async (found, schedule, todo) => {
      const { life, before } = await madeOf(found, schedule);
      const known = CLUSTERS.slice(0, found.length);
      for (const step of todo) await attempt(life, (deps) => take(step, known, deps));
      await quieten(life);
      await assertCurrent(life, before);
    }),
    { numRuns: RUNS },
  );
});

test('change: concurrent changes during reconciliation end in one state everywhere', async () => {
  await fc.assert(
    fc.asyncProperty(places, schedules, steps, async (found, { faults, delay }, todo) => {
      const { life, before } = await madeOf(found, { faults, delay, crashes: [] });
      const known = CLUSTERS.slice(0, found.length);
      const passes = [live(life), live(life)].map((deps) => new Reconciler(deps).pass());
      await Promise.all([...todo.map((step) => attempt(life, (deps) => take(step, known, deps))), ...passes]);
      await quieten(life);
      await assertCurrent(life, before);
    }),
    { numRuns: RUNS },
  );
});

test('create: of two concurrent federations with the same names each is complete or absent', async () => {
  await fc.assert(
    fc.asyncProperty(places, schedules, async (found, { faults, delay }) => {
      const life = lifeOf(found, { faults, delay, crashes: [] });
      const ids = CLUSTERS.slice(0, found.length);
      const before = snapshot(life.world);
      const names = ['demo', 'rival'];
      const outcomes = await Promise.all(
        names.map((name) => attempt(life, (deps) => createFederation(alice, { ...federatedBody(ids), name }, deps))),
      );
      await quieten(life);
      assert.ok(outcomes.filter((outcome) => outcome === 'done').length <= 1);
      const winner = names[outcomes.indexOf('done')];
      assert.deepEqual([...life.world.cluster.services.keys()], winner === undefined ? [] : [winner]);
      if (winner === undefined) assertNothing(life.world, before);
      else await assertWhole(life.world, ids, winner);
    }),
    { numRuns: RUNS },
  );
});

test('remove: a removed federation is gone everywhere, whatever fails, is late or crashes', async () => {
  await fc.assert(
    fc.asyncProperty(places, schedules, fc.boolean(), async (found, schedule, isChanged) => {
      const { life, before } = await madeOf(found, schedule);
      const record = () => life.world.cluster.services.get('demo');
      if (isChanged)
        await attempt(life, (deps) =>
          changeFederation(alice, { ...federatedBody([]), script: 'false' }, undefined, deps),
        );
      const outcome = await attempt(life, async (deps) => {
        const current = record();
        assert.ok(current);
        await removeFederation(current, { cascade: true }, deps);
      });
      await quieten(life);
      if (outcome === 'done') assert.equal(record(), undefined);
      if (record()) await assertWhole(life.world, CLUSTERS.slice(0, found.length));
      else assertNothing(life.world, before);
    }),
    { numRuns: RUNS },
  );
});
