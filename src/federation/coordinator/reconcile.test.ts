import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { OscarError } from '../../lib/oscar-error.ts';
import { Secret } from '../../lib/secret.ts';
import { PeerError } from '../../peers/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { changeFederation } from './change-federation.ts';
import type { Coordination } from './coordination.ts';
import { createFederation } from './create-federation.ts';
import { type LedgerMember, Ledgers } from './ledger.ts';
import { alice, coordination, federatedBody, type World, worldOf } from './model/coordinator.fixture.ts';
import { openPassage, type Passage } from './model/model-cluster.fixture.ts';
import { type ModelManager, remoteService } from './model/model-manager.fixture.ts';
import { Reconciler } from './reconcile.ts';
import { removeFederation } from './remove-federation.ts';

const HOUR = 3_600_000;

/** A federation with one member, and a clock that the test moves. */
async function scene(more: Partial<Coordination> = {}) {
  const world = worldOf('b');
  const manager = world.managers.get('b');
  assert.ok(manager);
  let time = 1_000_000_000;
  const calls: string[] = [];
  let isAway = false;
  const passage: Passage = {
    ...openPassage,
    request: (_cluster, call, effect) => {
      calls.push(call);
      if (isAway) throw new PeerError('unreachable', 'it did not answer');
      return effect();
    },
  };
  const deps = coordination(world, passage, { now: () => time, ...more });
  await createFederation(alice, federatedBody(['b']), deps);
  calls.length = 0;
  const failures: unknown[] = [];
  const reconciler = new Reconciler(deps, { random: () => 0, report: (error) => failures.push(error) });
  return {
    world,
    manager,
    deps,
    calls,
    reconciler,
    failures,
    away: (is: boolean) => {
      isAway = is;
    },
    later: (by: number) => {
      time += by;
    },
  };
}

const remote = (manager: ModelManager) => manager.services.get('demo-b');

async function onlyMember(world: World): Promise<LedgerMember | undefined> {
  const [entry] = await Array.fromAsync(new Ledgers(coordination(world)).all());
  return entry?.ledger.members[0];
}

describe('reconcile: a pass', () => {
  test('a member that is up to date is only checked', async () => {
    const { reconciler, calls, world, deps } = await scene();
    await reconciler.pass();
    assert.deepEqual(calls, ['inspect']);
    assert.equal((await onlyMember(world))?.lastSeen, deps.now());
  });

  test('cause: the reason why a member cannot be updated is reported once, and so is its recovery', async () => {
    const looks: (string | undefined)[] = [];
    const { reconciler, away, later } = await scene({
      onMemberHealth: ({ service, member, host, problem }) => {
        assert.deepEqual([service, member, host], ['demo', 'b/demo-b', 'b.example']);
        looks.push(problem?.message);
      },
    });
    const pass = async () => {
      later(HOUR);
      await reconciler.pass();
    };
    await pass();
    away(true);
    await pass();
    await pass();
    assert.deepEqual(looks, ['it did not answer']);
    away(false);
    await pass();
    await pass();
    assert.deepEqual(looks, ['it did not answer', undefined]);
  });

  test('a member that was unreachable gets the newest revision', async () => {
    const { reconciler, manager, deps, away, world, later } = await scene();
    away(true);
    await changeFederation(alice, { ...federatedBody([]), script: 'new' }, undefined, deps);
    await reconciler.pass();
    assert.match((await onlyMember(world))?.reason ?? '', /did not answer/);
    away(false);
    later(HOUR);
    await reconciler.pass();
    assert.match(remote(manager)?.body ?? '', /"script":"new"/);
    assert.equal((await onlyMember(world))?.reason, undefined);
  });

  test('a member whose definition differs from its revision is repaired', async () => {
    const { reconciler, manager, calls } = await scene();
    const there = remote(manager);
    assert.ok(there?.worker);
    const worker = { ...there.worker, revision: 0, digest: 'another' };
    manager.services.set('demo-b', { ...there, worker });
    await reconciler.pass();
    assert.deepEqual(calls, ['inspect', 'update']);
    assert.deepEqual(remote(manager)?.worker, there.worker);
  });

  test('a missing member is created again if a token can be obtained', async () => {
    const { reconciler, manager } = await scene({ getOwnerToken: async () => new Secret('minted') });
    manager.services.clear();
    const asked: string[] = [];
    manager.accepts = (as) => asked.push(as.kind === 'bearer' ? as.token.reveal() : '') > 0;
    await reconciler.pass();
    assert.ok(remote(manager)?.worker);
    assert.deepEqual(new Set(asked), new Set(['minted']));
  });

  test('a missing member is only reported without credentials', async () => {
    const { reconciler, manager, world } = await scene();
    manager.services.clear();
    await reconciler.pass();
    const member = await onlyMember(world);
    assert.equal(member?.state, 'wanted');
    assert.match(
      member.reason ?? '',
      /it no longer exists there, and no credentials for this member are stored: update the service once with PUT/,
    );
  });

  const refusals: [string, string, string, RegExp][] = [
    [
      'refused',
      'credentials-expired',
      'wanted',
      /it no longer exists there, and no credentials .*: update the service once with PUT \(why\)/,
    ],
    ['away', 'issuer-unavailable', 'made', /^why$/],
  ];
  for (const [name, code, state, reason] of refusals) {
    test(`the reason why a missing member is not created again is shown if a token is ${name}`, async () => {
      class MintError extends OscarError {}
      const { reconciler, manager, world } = await scene({
        getOwnerToken: async () => {
          throw new MintError(code, 'why');
        },
      });
      manager.services.clear();
      await reconciler.pass();
      const member = await onlyMember(world);
      assert.equal(member?.state, state);
      assert.match(member.reason ?? '', reason);
    });
  }

  test('a member that its owner deleted is not created again', async () => {
    const { reconciler, manager, world, calls } = await scene({ getOwnerToken: async () => new Secret('minted') });
    manager.tombstones.add(remote(manager)?.worker?.keyId ?? '');
    manager.services.clear();
    await reconciler.pass();
    await reconciler.pass();
    assert.equal((await onlyMember(world))?.state, 'left');
    assert.deepEqual(calls, ['inspect']);
  });

  test('a service of another owner is never overwritten', async () => {
    const { reconciler, manager, world } = await scene({ getOwnerToken: async () => new Secret('minted') });
    const foreign = remoteService('bob');
    manager.services.set('demo-b', foreign);
    await reconciler.pass();
    assert.equal((await onlyMember(world))?.state, 'conflict');
    assert.equal(remote(manager), foreign);
  });

  test('after a restore, the revision goes past the revision of a member', async () => {
    const { reconciler, manager, world } = await scene();
    const there = remote(manager);
    assert.ok(there?.worker);
    manager.services.set('demo-b', { ...there, worker: { ...there.worker, revision: 41, digest: 'later' } });
    await reconciler.pass();
    assert.equal(world.cluster.services.get('demo')?.service.federation?.revision, 42);
    assert.equal(remote(manager)?.worker?.revision, 42);
    assert.equal((await onlyMember(world))?.state, 'made');
  });

  test('a member that is always ahead raises the revision once, and is checked less often', async () => {
    const audited: number[] = [];
    const { reconciler, manager, world, calls, later } = await scene({
      audit: ({ revision = 0 }) => audited.push(revision),
    });
    let known = 10;
    manager.inspect = () => ({ revision: (known *= 2), digest: 'later', instance: manager.instance });
    await reconciler.pass();
    assert.deepEqual(audited, [21]);
    assert.equal(calls.length, 2);
    assert.match((await onlyMember(world))?.reason ?? '', /a later revision/);
    await reconciler.pass();
    assert.equal(calls.length, 2);
    later(HOUR);
    await reconciler.pass();
    assert.deepEqual(audited, [21, 81]);
  });

  test('an implausible revision of a member is ignored, and the other members are not affected', async () => {
    const { reconciler, manager, world } = await scene();
    const there = remote(manager);
    assert.ok(there?.worker);
    const revision = Number.MAX_SAFE_INTEGER - 1;
    manager.services.set('demo-b', { ...there, worker: { ...there.worker, revision } });
    await reconciler.pass();
    const member = await onlyMember(world);
    assert.equal(member?.state, 'conflict');
    assert.match(member.reason ?? '', /too far above 1 to be plausible: remove the member and add it again/);
    assert.equal(world.cluster.services.get('demo')?.service.federation?.revision, 1);
  });

  test('a member that failed waits longer each time, unless it is woken', async () => {
    const { reconciler, calls, away, later, world } = await scene();
    away(true);
    await reconciler.pass();
    await reconciler.pass();
    assert.equal(calls.length, 1);
    later(2_500);
    await reconciler.pass();
    assert.equal(calls.length, 2);
    later(2_500);
    await reconciler.pass();
    assert.equal(calls.length, 2);
    reconciler.wake(world.cluster.services.get('demo')?.service.federation?.uid ?? '');
    await reconciler.pass();
    assert.equal(calls.length, 3);
  });

  test('the interval is randomized', async () => {
    const { deps, calls } = await scene();
    let chances = 0;
    const reconciler = new Reconciler(deps, { interval: 1, random: () => ++chances % 2 });
    reconciler.start();
    await eventually(() => assert.ok(calls.length > 3 && chances > 1));
    await reconciler.stop();
  });

  test('members that were unreachable when the service was deleted are ended later, and their keys are deleted', async () => {
    const { reconciler, manager, deps, away, later, world } = await scene();
    away(true);
    const record = await deps.services.get('demo');
    assert.ok(record);
    assert.equal((await removeFederation(record, { cascade: true }, deps)).length, 1);
    assert.equal(world.cluster.services.size, 0);
    await reconciler.pass();
    assert.ok(remote(manager));
    away(false);
    later(HOUR);
    await reconciler.pass();
    assert.equal(remote(manager), undefined);
    assert.equal(world.cluster.journal.size + world.cluster.secrets.size, 0);
  });

  test('members are ended if their service was removed outside the federation, once that is certain', async () => {
    const { reconciler, manager, later, world } = await scene();
    world.cluster.services.clear();
    await reconciler.pass();
    assert.ok(remote(manager));
    later(HOUR);
    await reconciler.pass();
    assert.equal(remote(manager), undefined);
    assert.equal(world.cluster.journal.size, 0);
  });

  test('members are not ended only because their service is not known here yet', async () => {
    const { deps, manager, later } = await scene();
    const behind = { ...deps, services: { ...deps.services, get: async () => undefined } };
    later(HOUR);
    await new Reconciler(behind, { report: (error) => assert.fail(String(error)) }).pass();
    assert.ok(remote(manager));
  });

  test('an abandoned create is rolled back', async () => {
    const { reconciler, deps, later, world } = await scene();
    const ledger = { uid: 'u2', service: 'other', serviceUid: '', phase: 'creating', revision: 1 } as const;
    await new Ledgers(deps).begin({ ...ledger, begunAt: deps.now(), members: [] });
    await reconciler.pass();
    assert.equal(world.cluster.journal.size, 2);
    later(HOUR);
    await reconciler.pass();
    assert.equal(world.cluster.journal.size, 1);
  });

  test('a failure of one federation is reported, and the others are reconciled', async () => {
    const { deps, calls, world } = await scene();
    const failures: string[] = [];
    const get: Coordination['services']['get'] = async (name) => {
      if (name === 'broken') throw new Error('the store is away');
      return deps.services.get(name);
    };
    const ledger = { uid: '0', service: 'broken', serviceUid: '', phase: 'active', revision: 1 } as const;
    await new Ledgers(deps).begin({ ...ledger, begunAt: 0, members: [] });
    const broken = { ...deps, services: { ...deps.services, get } };
    await new Reconciler(broken, { report: (_error, uid) => failures.push(uid) }).pass();
    assert.deepEqual(failures, ['0']);
    assert.deepEqual(calls, ['inspect']);
    assert.equal(world.cluster.journal.size, 2);
  });
});

describe('reconcile: the running loop', () => {
  test('it runs again when it is woken, and ends when it is stopped', async () => {
    const { reconciler, calls, world, failures } = await scene();
    reconciler.start();
    await eventually(() => assert.deepEqual(calls, ['inspect']));
    reconciler.wake(world.cluster.services.get('demo')?.service.federation?.uid ?? '');
    await eventually(() => assert.deepEqual(calls, ['inspect', 'inspect']));
    await reconciler.stop();
    assert.deepEqual(failures, []);
  });

  const signs: [string, (reconciler: Reconciler, member: LedgerMember) => void][] = [
    ['asks for something itself', (reconciler, member) => reconciler.onMemberRequest(member)],
    ['answers somebody else', (reconciler, { endpoint }) => reconciler.onPeerRecovered(endpoint)],
  ];
  for (const [sign, give] of signs) {
    test(`a waiting member that ${sign} is checked at once, and no other member`, async () => {
      const { reconciler, calls, world, away, later } = await scene();
      away(true);
      for (let failures = 0; failures < 9; failures++) {
        later(HOUR);
        await reconciler.pass();
      }
      const member = await onlyMember(world);
      assert.ok(member);
      away(false);
      later(1_000);
      calls.length = 0;
      reconciler.start();
      give(reconciler, { ...member, keyId: 'of nobody', endpoint: 'https://c.example' });
      later(5_000);
      give(reconciler, member);
      await eventually(async () => assert.equal((await onlyMember(world))?.reason, undefined));
      await reconciler.stop();
      assert.deepEqual(calls, ['inspect']);
    });
  }

  test('a member that failed a moment ago is checked at the next pass, not when it sends a request', async () => {
    const { reconciler, calls, world, away, later } = await scene();
    away(true);
    for (let failures = 0; failures < 9; failures++) {
      later(HOUR);
      await reconciler.pass();
    }
    const member = await onlyMember(world);
    assert.ok(member);
    calls.length = 0;
    reconciler.onMemberRequest(member);
    await reconciler.pass();
    assert.deepEqual(calls, []);
    later(5_000);
    await reconciler.pass();
    assert.deepEqual(calls, ['inspect']);
  });

  test('it runs again after its interval', async () => {
    const { deps, calls } = await scene();
    const reconciler = new Reconciler(deps, { interval: 1 });
    reconciler.start();
    await eventually(() => assert.ok(calls.length > 3));
    await reconciler.stop();
    const { length } = calls;
    reconciler.wake('anything');
    assert.equal(calls.length, length);
  });
});
