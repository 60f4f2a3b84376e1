import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import type { Service } from '../../model/service/index.ts';
import type { Peer, PeerAddress } from '../../peers/index.ts';
import type { ServiceRecord } from '../../ports/index.ts';
import { changeFederation } from './change-federation.ts';
import type { Coordination } from './coordination.ts';
import { createFederation } from './create-federation.ts';
import { Ledgers } from './ledger.ts';
import { alice, coordination, federatedBody, type World, worldOf } from './model/coordinator.fixture.ts';
import { openPassage, type Passage } from './model/model-cluster.fixture.ts';
import { remoteService } from './model/model-manager.fixture.ts';
import { Reconciler } from './reconcile.ts';
import { removeFederation } from './remove-federation.ts';

async function made(): Promise<{ world: World; record: ServiceRecord; before: unknown }> {
  const world = worldOf('b', 'c');
  world.managers.get('c')?.services.set('demo-c', remoteService('alice'));
  const before = structuredClone(world.managers.get('c')?.snapshot());
  const { record } = await createFederation(alice, federatedBody(['b', 'c']), coordination(world));
  return { world, record, before };
}

test('remove: created members are deleted, and adopted ones are restored', async () => {
  const { world, record, before } = await made();
  assert.equal((await removeFederation(record, { cascade: true }, coordination(world))).length, 0);
  assert.equal(world.managers.get('b')?.services.size, 0);
  assert.deepEqual(world.managers.get('c')?.snapshot(), before);
  assert.equal(world.cluster.services.size + world.cluster.journal.size + world.cluster.secrets.size, 0);
});

test('remove: without cascade members stay as plain services', async () => {
  const { world, record } = await made();
  await removeFederation(record, { cascade: false }, coordination(world));
  for (const id of ['b', 'c']) {
    const there = world.managers.get(id)?.services.get(`demo-${id}`);
    assert.ok(there && !there.worker && !there.before);
  }
  assert.equal(world.cluster.journal.size, 0);
});

test('remove: the ledger records the removal before anything is removed', async () => {
  const { world, record } = await made();
  const deps = coordination(world);
  let phase: string | undefined;
  const remove = async () => {
    const [entry] = await Array.fromAsync(new Ledgers(deps).all());
    phase = entry?.ledger.phase;
    throw new Error('the store is away');
  };
  await assert.rejects(removeFederation(record, { cascade: true }, { ...deps, own: { ...deps.own, remove } }), /away/);
  assert.equal(phase, 'ending');
  assert.equal(world.cluster.journal.size, 1, 'the ledger stays until the service here is gone');
  await removeFederation(record, { cascade: true }, deps);
  assert.equal(world.cluster.services.size + world.cluster.journal.size, 0);
});

test('remove: a delete during a create stops the create', async () => {
  const world = worldOf('b');
  const deps = coordination(world);
  const interrupted: Passage = {
    ...openPassage,
    request: (_cluster, call, effect) => {
      if (call !== 'create') return effect();
      const record = world.cluster.services.get('demo');
      assert.ok(record);
      void removeFederation(record, { cascade: true }, deps);
      return effect();
    },
  };
  await assert.rejects(
    createFederation(alice, federatedBody(['b']), coordination(world, interrupted)),
    /abandoned while it was being created/,
  );
  assert.equal(world.managers.get('b')?.services.size, 0);
  assert.equal(world.cluster.services.size + world.cluster.journal.size + world.cluster.secrets.size, 0);
});

test('remove: a service without a ledger is only removed', async () => {
  const { world, record } = await made();
  world.cluster.journal.clear();
  assert.equal((await removeFederation(record, { cascade: true }, coordination(world))).length, 0);
  assert.equal(world.cluster.services.size, 0);
});

test('remove: a member whose key is lost stays in the ledger with that reason until it is gone', async () => {
  const { world, record } = await made();
  const { cluster, managers } = world;
  const backup = [cluster.services, cluster.journal, cluster.secrets].map((each) => new Map<string, unknown>(each));
  const deps = coordination(world);
  const body = { ...federatedBody([]), script: 'new' };
  await changeFederation(alice, body, undefined, deps);
  for (const [index, each] of [cluster.services, cluster.journal, cluster.secrets].entries()) {
    each.clear();
    for (const [key, value] of backup[index] ?? []) (each as Map<string, unknown>).set(key, value);
  }

  assert.equal((await removeFederation(record, { cascade: true }, deps)).length, 2);
  const [entry] = await Array.fromAsync(new Ledgers(deps).all());
  assert.match(entry?.ledger.members[0]?.reason ?? '', /^key lost: .*delete the member there/);
  assert.ok(managers.get('b')?.services.has('demo-b'));
  for (const [id, manager] of managers) manager.services.delete(`demo-${id}`);
  await new Reconciler(deps).pass();
  assert.equal(cluster.journal.size + cluster.secrets.size, 0);
});

test('remove: a member without keys is ended as the owner, whose credential is obtained before the service is removed', async () => {
  const { world, record } = await made();
  const asked: string[] = [];
  const getOwnerToken = async ({ definition: { name } }: Service) => {
    assert.ok(world.cluster.services.has(name));
    return new Secret('minted');
  };
  const deps = keyless(world, asked, { getOwnerToken });
  assert.equal(
    (await removeFederation(record, { cascade: true, caller: { principal: { kind: 'admin' } } }, deps)).length,
    0,
  );
  assert.deepEqual(new Set(asked), new Set(['minted']));
});

test('remove: a member that cannot be ended without credentials stays in the ledger with that reason', async () => {
  const { world, record } = await made();
  const deps = keyless(world, []);
  assert.equal((await removeFederation(record, { cascade: true }, deps)).length, 2);
  const reasons = async () => {
    const [entry] = await Array.fromAsync(new Ledgers(deps).all());
    return entry?.ledger.members.map(({ reason }) => reason);
  };
  assert.match(String(await reasons()), /no credentials for this member are stored/);
  await new Reconciler(deps).pass();
  assert.match(
    String(await reasons()),
    /the service and the grant of its owner no longer exist here: delete the member there/,
  );
});

/** All managers of the world behave like Go managers: they need credentials instead of a key. */
function keyless(world: World, asked: string[], more: Partial<Coordination> = {}): Coordination {
  const deps = coordination(world, openPassage, more);
  for (const [key, entry] of world.cluster.journal) {
    world.cluster.journal.set(key, { ...entry, state: entry.state.replaceAll('"oscar"', '"upstream"') });
  }
  const at = (address: PeerAddress): Peer => {
    const peer = deps.peers.at(address);
    const remove: Peer['remove'] = async (name, how, as) => {
      const credential = await as.owner?.();
      if (credential?.kind === 'bearer') asked.push(credential.token.reveal());
      return peer.remove(name, how, as);
    };
    return { ...peer, remove };
  };
  return { ...deps, peers: { at } };
}
