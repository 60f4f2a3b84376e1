import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseMembersChange } from '../members.ts';
import { changeFederation, changeMembers } from './change-federation.ts';
import type { Coordination } from './coordination.ts';
import { createFederation } from './create-federation.ts';
import { Ledgers, memberId } from './ledger.ts';
import { membersView } from './members-view.ts';
import { alice, coordination, federatedBody, memberOn, worldOf } from './model/coordinator.fixture.ts';
import { openPassage } from './model/model-cluster.fixture.ts';
import { Reconciler } from './reconcile.ts';
import { removeFederation } from './remove-federation.ts';

const HOUR = 3_600_000;

/** A federation of two members. Member b has the given number of jobs. */
async function scene() {
  const world = worldOf('b', 'c');
  const clock = { now: 1_000_000_000 };
  const jobs = { held: 2, asked: [] as string[] };
  const deps: Coordination = coordination(world, openPassage, {
    now: () => clock.now,
    outstanding: async (serviceUid, member) => {
      jobs.asked.push(`${serviceUid} ${member}`);
      if (jobs.held < 0) throw new Error('the store is away');
      return member === 'b/demo-b' ? jobs.held : 0;
    },
  });
  await createFederation(alice, federatedBody(['b', 'c']), deps);
  const service = () => {
    const record = world.cluster.services.get('demo');
    assert.ok(record);
    return record.service;
  };
  const ledger = async () => {
    const entry = await new Ledgers(deps).read(service().federation?.uid ?? '');
    assert.ok(entry);
    return entry.ledger;
  };
  return {
    world,
    clock,
    jobs,
    deps,
    service,
    ledger,
    change: (method: 'POST' | 'DELETE', more: object = {}) =>
      changeMembers(alice, 'demo', parseMembersChange(method, { members: [memberOn('b')], ...more }), deps),
    pass: () => new Reconciler(deps).pass(),
    states: async () => (await ledger()).members.map((each) => `${memberId(each)} ${each.state}`),
    there: () => world.managers.get('b')?.services.get('demo-b'),
    keys: () => [...world.cluster.secrets.keys()].filter((key) => key.startsWith('member ')).length,
  };
}

describe('drain: a removed member that has jobs', () => {
  test('it leaves the definition at once, and is ended when its jobs have ended', async () => {
    const { change, service, ledger, states, there, pass, jobs, keys } = await scene();
    await change('DELETE');
    assert.deepEqual(
      service().definition.federation?.members?.map(({ cluster_id }) => cluster_id),
      ['c'],
    );
    await pass();
    assert.deepEqual(await states(), ['c/demo-c made', 'b/demo-b leaving']);
    assert.ok(there()?.worker, 'and stays until then');
    assert.equal(keys(), 2, 'with its key');
    const seen = membersView(service().definition, await ledger()).members?.[1];
    assert.ok(seen && 'state' in seen);
    assert.deepEqual(
      [seen.state, seen.reason],
      ['removing', 'it still has jobs: it is removed when they end, or after 24 hours'],
    );
    assert.ok(jobs.asked.every((each) => each === `${service().uid} b/demo-b`));
    jobs.held = 0;
    await pass();
    assert.deepEqual(await states(), ['c/demo-c made']);
    assert.equal(there(), undefined);
    assert.equal(keys(), 1);
  });

  test('it is ended at once with force, even if it is already leaving', async () => {
    for (const isLeaving of [false, true]) {
      const { change, there, states } = await scene();
      if (isLeaving) await change('DELETE');
      await change('DELETE', { force: true });
      assert.equal(there(), undefined);
      assert.deepEqual(await states(), ['c/demo-c made']);
    }
  });

  test('it is ended after a day', async () => {
    const { change, there, pass, clock } = await scene();
    await change('DELETE');
    clock.now += 24 * HOUR - 1;
    await pass();
    assert.ok(there());
    clock.now += 1;
    await pass();
    assert.equal(there(), undefined);
  });

  test('it stays unchanged if it is added again meanwhile', async () => {
    const { change, there, pass, states, jobs } = await scene();
    const before = there()?.worker?.keyId;
    await change('DELETE', { force: false, delete: false });
    await change('POST');
    jobs.held = 0;
    await pass();
    assert.deepEqual((await states()).toSorted(), ['b/demo-b made', 'c/demo-c made']);
    assert.equal(there()?.worker?.keyId, before);
    assert.equal(there()?.worker?.revision, 3);
  });

  test('it is detached as requested, whatever is changed meanwhile', async () => {
    const { change, there, pass, deps, jobs } = await scene();
    await change('DELETE', { delete: false });
    await changeFederation(alice, { ...federatedBody([]), script: 'new' }, undefined, deps);
    jobs.held = 0;
    await pass();
    assert.ok(there() && !there()?.worker, 'a service of its own');
  });

  test('it stays while its jobs are unknown', async () => {
    const { change, there, pass, jobs } = await scene();
    jobs.held = -1;
    await change('DELETE');
    await pass();
    assert.ok(there()?.worker);
  });

  test('it is ended at once when the coordinator’s service is deleted', async () => {
    const { change, there, deps, world } = await scene();
    await change('DELETE');
    const record = world.cluster.services.get('demo');
    assert.ok(record);
    assert.equal((await removeFederation(record, { cascade: true }, deps)).length, 0);
    assert.equal(there(), undefined);
  });
});
