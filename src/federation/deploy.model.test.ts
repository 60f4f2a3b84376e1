import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Secret } from '../base/secret.ts';
import { changeMembers, changeService } from './change.ts';
import type { Coordination } from './coordinator/coordination.ts';
import {
  alice,
  coordination,
  federatedBody,
  memberOn,
  type World,
  worldOf,
} from './coordinator/coordinator.fixture.ts';
import { Crash, type Passage } from './coordinator/model-cluster.fixture.ts';
import { type ModelManager, remoteService } from './coordinator/model-manager.fixture.ts';
import { deploy } from './deploy.ts';
import { Ledgers } from './ledger-store.ts';
import { readIntention } from './members.ts';
import { PeerError } from './peer/peer.ts';
import { Reconciler } from './reconcile.ts';
import { recoverFederations } from './recover.ts';
import { removeFederation } from './remove.ts';

const RUNS = 20 * Number(process.env['OSCAR_TEST_ROUNDS'] ?? 5);

/** What becomes of one request to a member. `late`: it takes effect when nobody reckons with it any more. */
type Fault = 'none' | 'before' | 'after' | 'late';

/** At which of its writes, counted over all of a run, the coordinator dies: before it took effect, or after. */
interface CrashAt {
  readonly write: number;
  readonly effect: boolean;
}

interface Schedule {
  readonly faults: readonly Fault[];
  readonly crashes: readonly CrashAt[];
  /** After how many further requests a late one arrives. */
  readonly delay: number;
}

/** A world in which things go wrong as the schedule says, until it is healed. */
class Weather {
  readonly #schedule: Schedule;
  #requests = 0;
  #writes = 0;
  #healed = false;
  #late: { at: number; effect: () => unknown }[] = [];

  constructor(schedule: Schedule) {
    this.#schedule = schedule;
  }

  /** One life of the coordinator. */
  passage(): Passage {
    let isDead = false;
    const live = () => {
      if (isDead) throw new Crash();
    };
    return {
      write: (effect) => {
        live();
        const write = this.#writes++;
        const crash = this.#healed ? undefined : this.#schedule.crashes.find((each) => each.write === write);
        if (!crash) return effect();
        isDead = true;
        if (crash.effect) effect();
        throw new Crash();
      },
      request: (_cluster, _call, effect) => {
        live();
        return this.#request(effect);
      },
    };
  }

  #request<T>(effect: () => T): T {
    const request = this.#requests++;
    this.#deliver(request);
    const fault = this.#healed ? 'none' : (this.#schedule.faults[request] ?? 'none');
    if (fault === 'none') return effect();
    if (fault === 'after') effect();
    if (fault === 'late') this.#late.push({ at: request + this.#schedule.delay, effect });
    throw new PeerError('unreachable', 'it did not answer');
  }

  #deliver(request: number): void {
    const due = this.#late.filter(({ at }) => at <= request);
    this.#late = this.#late.filter(({ at }) => at > request);
    for (const { effect } of due) quietly(effect);
  }

  heal(): void {
    this.#healed = true;
  }

  /** Everything that was on its way arrives. */
  settle(): void {
    this.#deliver(Number.POSITIVE_INFINITY);
  }
}

/** Nobody waits for the answer of a request that comes late. */
function quietly(effect: () => unknown): void {
  try {
    effect();
  } catch (error) {
    if (!(error instanceof PeerError)) throw error;
  }
}

/** A clock that only tests move. */
class Clock {
  #now = 1_000_000;
  readonly now = () => this.#now;
  /** Long enough for anything to count as abandoned, and for every member to have its turn again. */
  pass(): void {
    this.#now += 3_600_000;
  }
}

interface Life {
  readonly world: World;
  readonly weather: Weather;
  readonly clock: Clock;
}

const live = ({ world, weather, clock }: Life): Coordination =>
  coordination(world, weather.passage(), { now: clock.now, mint: async () => new Secret('minted') });

/** Does something; if the coordinator dies of it, another life settles what it left. */
async function attempt(
  life: Life,
  work: (deps: Coordination) => Promise<unknown>,
): Promise<'done' | 'refused' | 'died'> {
  try {
    await work(live(life));
    return 'done';
  } catch (error) {
    if (!(error instanceof Crash)) return 'refused';
    for (;;) {
      life.clock.pass();
      try {
        await recoverFederations(life.clock.now(), live(life));
        return 'died';
      } catch (again) {
        if (!(again instanceof Crash)) throw again;
      }
    }
  }
}

/** The network is well again, and what was late arrives: passes are made until nothing changes. */
async function quieten(life: Life): Promise<void> {
  life.weather.heal();
  for (const _ of [1, 2]) {
    const deps = live(life);
    await recoverFederations(life.clock.now() + 1, deps);
    const reconciler = new Reconciler(deps, {
      report: (error) => {
        throw error;
      },
    });
    for (let pass = 0; pass < 4; pass++) {
      life.clock.pass();
      await reconciler.pass();
    }
    life.weather.settle();
  }
}

const faults = fc.array(
  fc.oneof(
    { weight: 3, arbitrary: fc.constant<Fault>('none') },
    { weight: 1, arbitrary: fc.constantFrom<Fault>('before', 'after', 'late') },
  ),
  { maxLength: 30 },
);
const schedules = fc.record({
  faults,
  crashes: fc.array(fc.record({ write: fc.nat(40), effect: fc.boolean() }), { maxLength: 2 }),
  delay: fc.nat(6),
});

/** What a member's cluster has under its name before. */
const places = fc.array(fc.constantFrom('nothing', 'own', 'foreign'), { minLength: 1, maxLength: 4 }).map((found) =>
  // Foreign services refuse the whole create: that must not be all that is ever tried.
  found.map((each, index) => (each === 'foreign' && index % 2 === 0 ? 'nothing' : each)),
);

const CLUSTERS = ['a', 'b', 'c', 'd'];

function worldWith(found: readonly string[]): World {
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

const snapshot = ({ managers }: World) => structuredClone([...managers].map(([id, each]) => [id, each.snapshot()]));
const memberKeys = ({ cluster }: World) => [...cluster.secrets.keys()].filter((key) => key.startsWith('member '));

/** All members are what the coordinator's service says, or as nobody had touched them. */
async function assertWhole(world: World, ids: readonly string[]): Promise<void> {
  const record = world.cluster.services.get('demo');
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

function assertNothing(world: World, before: unknown): void {
  assert.deepEqual(snapshot(world), before, 'what was there before is as it was');
  assert.deepEqual([...world.cluster.services.keys()], []);
  assert.deepEqual([...world.cluster.journal.keys()], []);
  assert.deepEqual([...world.cluster.secrets.keys()], []);
}

const lifeOf = (found: readonly string[], schedule: Schedule): Life => ({
  world: worldWith(found),
  weather: new Weather(schedule),
  clock: new Clock(),
});

const CALM: Schedule = { faults: [], crashes: [], delay: 0 };

test('a federation is made whole or not at all, whatever fails, comes late or dies', async () => {
  await fc.assert(
    fc.asyncProperty(places, schedules, async (found, schedule) => {
      const life = lifeOf(found, schedule);
      const before = snapshot(life.world);
      const ids = CLUSTERS.slice(0, found.length);
      const outcome = await attempt(life, (deps) => deploy(alice, federatedBody(ids), deps));
      await quieten(life);
      const isThere = life.world.cluster.services.has('demo');
      if (outcome !== 'died') assert.equal(isThere, outcome === 'done', 'the user was told the truth');
      if (isThere) await assertWhole(life.world, ids);
      else assertNothing(life.world, before);
    }),
    { numRuns: RUNS },
  );
});

/** A federation that was made in good weather, and what there was before it. */
async function madeOf(found: readonly string[], schedule: Schedule): Promise<{ life: Life; before: unknown }> {
  const world = worldWith(found.map((each) => (each === 'foreign' ? 'nothing' : each)));
  const before = snapshot(world);
  const ids = CLUSTERS.slice(0, found.length);
  await deploy(alice, federatedBody(ids), live({ world, weather: new Weather(CALM), clock: new Clock() }));
  return { life: { world, weather: new Weather(schedule), clock: new Clock() }, before };
}

const ids = fc.uniqueArray(fc.constantFrom(...CLUSTERS), { minLength: 1, maxLength: 3 });
const steps = fc.array(
  fc.oneof(
    fc.record({ verb: fc.constant('script' as const), script: fc.stringMatching(/^[a-z]{3,8}$/) }),
    fc.record({ verb: fc.constantFrom('POST' as const, 'DELETE' as const), ids }),
  ),
  { minLength: 1, maxLength: 4 },
);

type Step = typeof steps extends fc.Arbitrary<(infer S)[]> ? S : never;

async function take(step: Step, known: readonly string[], deps: Coordination): Promise<void> {
  if (step.verb === 'script') {
    await changeService(alice, { ...federatedBody([]), script: step.script }, undefined, deps);
    return;
  }
  const members = step.ids.filter((id) => known.includes(id)).map(memberOn);
  if (members.length > 0) await changeMembers(alice, 'demo', readIntention(step.verb, { members }), deps);
}

test('after any changes all members are at the newest revision, and those that left are what they were', async () => {
  await fc.assert(
    fc.asyncProperty(places, schedules, steps, async (found, schedule, todo) => {
      const { life, before } = await madeOf(found, schedule);
      const known = CLUSTERS.slice(0, found.length);
      for (const step of todo) await attempt(life, (deps) => take(step, known, deps));
      await quieten(life);
      const service = life.world.cluster.services.get('demo')?.service;
      const current = (service?.definition.federation?.members ?? []).map(({ cluster_id }) => cluster_id);
      await assertWhole(life.world, current);
      for (const id of known) {
        const there = managerOf(life.world, id);
        if (current.includes(id))
          assert.match(there.services.get(`demo-${id}`)?.body ?? '', new RegExp(service?.definition.script ?? ''));
        else
          assert.deepEqual(
            [id, there.snapshot()],
            (before as unknown[]).find((each) => (each as string[])[0] === id),
          );
      }
    }),
    { numRuns: RUNS },
  );
});

test('a federation that is deleted is gone everywhere, whatever fails, comes late or dies', async () => {
  await fc.assert(
    fc.asyncProperty(places, schedules, fc.boolean(), async (found, schedule, isChanged) => {
      const { life, before } = await madeOf(found, schedule);
      const record = () => life.world.cluster.services.get('demo');
      if (isChanged)
        await attempt(life, (deps) => changeService(alice, { ...federatedBody([]), script: 'false' }, undefined, deps));
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
