import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Secret } from '../../lib/secret.ts';
import type { Peer } from '../../peers/index.ts';
import { changeFederation } from './change-federation.ts';
import type { Coordination } from './coordination.ts';
import { createFederation } from './create-federation.ts';
import { Ledgers } from './ledger.ts';
import { membersView } from './members-view.ts';
import { alice, coordination, federatedBody, withGoManagers, worldOf } from './model/coordinator.fixture.ts';
import { openPassage } from './model/model-cluster.fixture.ts';
import { Reconciler } from './reconcile.ts';
import { removeFederation } from './remove-federation.ts';

/** Clusters `b`, with one of our managers, and `go`. The test can hold calls to `go`. */
function setUp(more: Partial<Coordination> = {}) {
  const world = worldOf('b', 'go');
  const plain = withGoManagers(coordination(world, openPassage, { now: () => Date.now(), ...more }), 'go');
  const holds = new Map<string, Promise<void>>();
  const reached = new Map<string, () => void>();
  const endedAs: (string | undefined)[] = [];
  const at: Coordination['peers']['at'] = (address) => {
    const peer = plain.peers.at(address);
    if (address.clusterId !== 'go') return peer;
    const held =
      <A extends unknown[], T>(call: string, ask: (...args: A) => Promise<T>) =>
      async (...args: A) => {
        reached.get(call)?.();
        await holds.get(call);
        return ask(...args);
      };
    const remove: Peer['remove'] = async (name, how, as) => {
      const credential = await as.owner?.();
      endedAs.push(credential?.kind === 'bearer' ? credential.token.reveal() : credential?.kind);
      return peer.remove(name, how, as);
    };
    return {
      ...peer,
      probe: held('probe', (...args: Parameters<Peer['probe']>) => peer.probe(...args)),
      create: held('create', (...args: Parameters<Peer['create']>) => peer.create(...args)),
      update: held('update', (...args: Parameters<Peer['update']>) => peer.update(...args)),
      remove: held('remove', remove),
    };
  };
  const hold = (call: string) => {
    const release = Promise.withResolvers<void>();
    const arrival = Promise.withResolvers<void>();
    holds.set(call, release.promise);
    reached.set(call, arrival.resolve);
    return { reached: arrival.promise, release: release.resolve };
  };
  return { world, deps: { ...plain, peers: { at } }, hold, endedAs };
}

/** Runs everything that does not wait for a timer. */
async function settle(): Promise<void> {
  for (let i = 0; i < 200; i++) await turn();
}

const fakeTime = (t: TestContext) => t.mock.timers.enable({ apis: ['setTimeout', 'Date'] });

describe('deadline', () => {
  test('a create waits 16 s for a member on a Go manager, and succeeds', async (t) => {
    const { deps, hold } = setUp();
    fakeTime(t);
    const held = hold('create');
    const creating = createFederation(alice, federatedBody(['b', 'go']), deps);
    await held.reached;
    await settle();
    t.mock.timers.tick(15_999);
    held.release();
    assert.deepEqual((await creating).pending, []);
  });

  test('a create waits 10 s for the probe of a Go manager, and 19 s in total', async (t) => {
    const { deps, hold } = setUp();
    fakeTime(t);
    const [probing, making] = [hold('probe'), hold('create')];
    const creating = createFederation(alice, federatedBody(['go']), deps);
    await probing.reached;
    t.mock.timers.tick(9_000);
    probing.release();
    await making.reached;
    await settle();
    t.mock.timers.tick(10_000);
    await assert.rejects(creating, { code: 'member-unreachable', message: /go\/demo-go: .*not answered within 10 s/ });
    making.release();
  });

  test('a create waits 8 s for a member on one of our managers, even if another member is on a Go manager', async (t) => {
    const { deps, hold, world } = setUp();
    fakeTime(t);
    const held = hold('create');
    const never = Promise.withResolvers<void>();
    const { at } = deps.peers;
    const slow: Coordination['peers']['at'] = (address) =>
      address.clusterId === 'b' ? { ...at(address), create: () => never.promise } : at(address);
    const creating = createFederation(alice, federatedBody(['b', 'go']), { ...deps, peers: { at: slow } });
    await held.reached;
    held.release();
    await settle();
    t.mock.timers.tick(8_000);
    await assert.rejects(creating, { message: /b\/demo-b: unreachable: it has not answered within 8 s/ });
    assert.equal(world.managers.get('go')?.services.size, 0);
  });

  test('a change waits 16 s for a member on a Go manager', async (t) => {
    const { deps, hold } = setUp();
    await createFederation(alice, federatedBody(['go']), deps);
    fakeTime(t);
    const held = hold('update');
    const changing = changeFederation(alice, { ...federatedBody([]), script: 'new' }, undefined, deps);
    await held.reached;
    await settle();
    t.mock.timers.tick(15_999);
    held.release();
    assert.deepEqual((await changing).pending, []);
  });

  test('the reconciler waits 16 s for a member on a Go manager', async (t) => {
    const { deps, hold, world } = setUp({ getOwnerToken: async () => new Secret('minted') });
    const { record } = await createFederation(alice, federatedBody(['go']), deps);
    world.managers.get('go')?.services.clear();
    fakeTime(t);
    const held = hold('create');
    const passing = new Reconciler(deps).pass();
    await held.reached;
    await settle();
    t.mock.timers.tick(15_999);
    held.release();
    await passing;
    const ledger = (await new Ledgers(deps).read(record.service.federation?.uid ?? ''))?.ledger;
    assert.equal(ledger?.members[0]?.reason, undefined);
  });
});

describe('slow Go manager', () => {
  test('other members show a change without waiting for it', async () => {
    const { deps, hold } = setUp();
    const { record } = await createFederation(alice, federatedBody(['b', 'go']), deps);
    const held = hold('update');
    const changing = changeFederation(alice, { ...federatedBody([]), script: 'new' }, undefined, deps);
    await held.reached;
    await settle();
    const ledger = (await new Ledgers(deps).read(record.service.federation?.uid ?? ''))?.ledger;
    const { members } = membersView(record.service.definition, ledger);
    assert.deepEqual(
      members?.map((member) => 'state' in member && member.state),
      ['ready', 'pending'],
    );
    held.release();
    assert.deepEqual((await changing).pending, []);
  });

  test('a delete of the service does not wait for it: the ledger ends the member, with the credentials of the owner', async (t) => {
    const { deps, hold, endedAs } = setUp();
    const { record } = await createFederation(alice, federatedBody(['b', 'go']), deps);
    fakeTime(t);
    const held = hold('remove');
    const removing = removeFederation(record, { cascade: true, caller: alice }, deps);
    await held.reached;
    await settle();
    t.mock.timers.tick(3_000);
    assert.equal((await removing).length, 1);
    const [entry] = await Array.fromAsync(new Ledgers(deps).all());
    assert.match(entry?.ledger.members[0]?.reason ?? '', /still deleting it/);

    // The service is gone here, and another process continues with the stored credential.
    held.release();
    await settle();
    await new Reconciler({ ...deps, peers: { at: deps.peers.at } }).pass();
    assert.deepEqual(await Array.fromAsync(new Ledgers(deps).all()), []);
    assert.deepEqual(new Set(endedAs), new Set([alice.credential.token.reveal()]));
  });

  test('a rollback after 19 s does not wait for it: the ledger finishes the rollback', async (t) => {
    const { deps, hold, world } = setUp();
    fakeTime(t);
    const [probing, making] = [hold('probe'), hold('create')];
    const removing = hold('remove');
    const creating = createFederation(alice, federatedBody(['go']), deps);
    await probing.reached;
    t.mock.timers.tick(5_000);
    probing.release();
    await making.reached;
    await settle();
    t.mock.timers.tick(14_000);
    await removing.reached;
    await settle();
    t.mock.timers.tick(1);
    await assert.rejects(creating, { code: 'member-unreachable' });

    // The create succeeded after all.
    making.release();
    await settle();
    removing.release();
    await settle();
    await new Reconciler(deps).pass();
    assert.equal(world.managers.get('go')?.services.size, 0);
    assert.equal(world.cluster.journal.size + world.cluster.secrets.size, 0);
  });
});

test('order: a create is told to try again while a Go manager still deletes the previous service', async (t) => {
  const { deps, world, hold } = setUp();
  const { record } = await createFederation(alice, federatedBody(['go']), deps);
  fakeTime(t);
  const held = hold('remove');
  const removing = removeFederation(record, { cascade: true, caller: alice }, deps);
  await held.reached;
  await settle();
  t.mock.timers.tick(3_000);
  assert.equal((await removing).length, 1);

  const again = createFederation(alice, federatedBody(['go']), deps);
  again.catch(() => {});
  await settle();
  t.mock.timers.tick(7_000);
  const message = /go\/demo-go: unreachable: the previous service of this name is still being deleted: try again/;
  await assert.rejects(again, { code: 'member-unreachable', message });
  assert.equal(world.cluster.services.size, 0);
  held.release();
  await settle();
  await createFederation(alice, federatedBody(['go']), deps);
  assert.equal(world.managers.get('go')?.services.size, 1);
});
