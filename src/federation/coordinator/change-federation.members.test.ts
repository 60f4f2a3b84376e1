import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { OscarError } from '../../lib/oscar-error.ts';
import type { Version } from '../../lib/version.ts';
import { FederationError, type Peer, type PeerAddress, PeerError } from '../../peers/index.ts';
import { parseMembersChange } from '../members.ts';
import {
  away,
  endedByOwner,
  made,
  onlyMember,
  plain,
  post,
  remove,
  serviceOf,
  states,
  worker,
} from './change-federation.fixture.ts';
import { changeMembers } from './change-federation.ts';
import { createFederation } from './create-federation.ts';
import { unpackLedger } from './ledger.ts';
import { alice, coordination, federatedBody, memberOn, type World, worldOf } from './model/coordinator.fixture.ts';
import { openPassage, type Passage } from './model/model-cluster.fixture.ts';
import { remoteService } from './model/model-manager.fixture.ts';
import { Reconciler } from './reconcile.ts';

/** Records the cluster and the method of each call. */
function noted(passage: Passage): { readonly passage: Passage; readonly calls: string[] } {
  const calls: string[] = [];
  const request: Passage['request'] = (cluster, call, effect) => {
    calls.push(`${cluster} ${call}`);
    return passage.request(cluster, call, effect);
  };
  return { passage: { ...passage, request }, calls };
}

describe('members: add, change and remove', () => {
  test('add: a plain service becomes a coordinator with the refresh token from its secrets', async () => {
    const world = worldOf('b');
    await plain(world);
    const { record, pending } = await changeMembers(alice, 'demo', post('b'), coordination(world));
    assert.deepEqual(pending, []);
    assert.ok(record.service.federation?.role === 'coordinator' && record.service.federation.committed);
    assert.equal(worker(world, 'b')?.worker?.uid, record.service.federation.uid);
    assert.equal(record.service.definition.federation?.topology, 'none');
  });

  test('add: a refresh token is required', async () => {
    const world = worldOf('b');
    await plain(world, { environment: {} });
    const change = changeMembers(alice, 'demo', post('b'), coordination(world));
    await assert.rejects(change, (error) => error instanceof FederationError && error.code === 'no-grant');
    assert.equal(world.cluster.journal.size, 0);
  });

  test('add: a member on a cluster that nobody has named is rejected, and nothing is changed', async () => {
    const world = await made();
    const before = await states(world);
    await assert.rejects(
      changeMembers(alice, 'demo', post('x', 'b'), coordination(world)),
      (error) => error instanceof FederationError && error.code === 'invalid-federation',
    );
    assert.deepEqual(await states(world), before);
  });

  test('add: members on unreachable or rejecting clusters are stored with their reason, without an error', async () => {
    const world = await made();
    world.managers.get('c')?.services.set('demo-c', remoteService('bob'));
    const { pending } = await changeMembers(alice, 'demo', post('b', 'c', 'd'), coordination(world, away('b')));
    assert.deepEqual(
      pending.map(({ member, reason }) => `${member}: ${reason}`),
      ['b/demo-b: it did not answer', 'c/demo-c: another service there has this name: choose another'],
    );
    assert.deepEqual(await states(world), {
      'b/demo-b': 'wanted',
      'c/demo-c': 'conflict',
      'd/demo-d': 'made',
    });
  });

  test('removal: adopted members are restored, and the keys are deleted', async () => {
    const world = worldOf('b', 'c', 'd');
    world.managers.get('b')?.services.set('demo-b', remoteService('alice'));
    const before = structuredClone(world.managers.get('b')?.snapshot());
    await createFederation(alice, federatedBody(['b', 'c']), coordination(world));
    await changeMembers(alice, 'demo', remove('b'), coordination(world));
    assert.deepEqual(world.managers.get('b')?.snapshot(), before);
    assert.deepEqual(await states(world), { 'c/demo-c': 'made' });
    assert.equal([...world.cluster.secrets.keys()].filter((key) => key.startsWith('member ')).length, 1);
  });

  test('removal: a detached member stays as a plain service', async () => {
    const world = await made('b', 'c');
    const detach = parseMembersChange('DELETE', { members: [memberOn('b')], delete: false });
    await changeMembers(alice, 'demo', detach, coordination(world));
    assert.ok(worker(world, 'b'));
    assert.equal(worker(world, 'b')?.worker, undefined);
  });

  test('removal: an unreachable member leaves the definition at once, and is ended later', async () => {
    const world = await made('b', 'c');
    await changeMembers(alice, 'demo', remove('b'), coordination(world, away('b')));
    assert.deepEqual(
      serviceOf(world).definition.federation?.members?.map((each) => each.cluster_id),
      ['c'],
    );
    assert.deepEqual(await states(world), { 'c/demo-c': 'made', 'b/demo-b': 'undoing' });
  });

  test('removal: a member whose create was never sent is gone at once, even if it is unreachable', async () => {
    const world = await made('c');
    world.managers.get('d')?.services.set('demo-d', remoteService('bob'));
    await changeMembers(alice, 'demo', post('b', 'd'), coordination(world, away('b')));
    assert.deepEqual(await states(world), {
      'c/demo-c': 'made',
      'b/demo-b': 'wanted',
      'd/demo-d': 'conflict',
    });
    const { passage, calls } = noted(away('b', 'd'));
    await changeMembers(alice, 'demo', remove('b', 'd'), coordination(world, passage));
    assert.deepEqual(await states(world), { 'c/demo-c': 'made' });
    assert.deepEqual(
      calls.filter((call) => !call.startsWith('c ')),
      [],
    );
    assert.equal([...world.cluster.secrets.keys()].filter((key) => key.startsWith('member ')).length, 1);
  });

  test('removal: a member whose create may have been sent is ended later if it is unreachable', async () => {
    const world = await made('c');
    // The worker is created, but the answer is lost.
    const lost: Passage = {
      ...openPassage,
      request: (cluster, call, effect) => {
        const answer = effect();
        if (cluster === 'b' && call === 'create') throw new PeerError('unreachable', 'it did not answer');
        return answer;
      },
    };
    await changeMembers(alice, 'demo', post('b'), coordination(world, lost));
    assert.ok(worker(world, 'b'));
    await changeMembers(alice, 'demo', remove('b'), coordination(world, away('b')));
    assert.deepEqual(
      serviceOf(world).definition.federation?.members?.map((each) => each.cluster_id),
      ['c'],
    );
    assert.deepEqual(await states(world), { 'c/demo-c': 'made', 'b/demo-b': 'undoing' });
    await new Reconciler(coordination(world)).pass();
    assert.deepEqual(await states(world), { 'c/demo-c': 'made' });
    assert.equal(worker(world, 'b'), undefined);
  });

  test('removal: a member that is removed while it is probed is not created afterwards', async () => {
    const world = await made('c');
    const { promise: looked, resolve: look } = Promise.withResolvers<void>();
    const { promise: removed, resolve: goOn } = Promise.withResolvers<void>();
    const { passage, calls } = noted(openPassage);
    const deps = coordination(world, passage);
    const slow = (peer: Peer): Peer => ({
      ...peer,
      async probe(...asked) {
        const found = await peer.probe(...asked);
        look();
        await removed;
        return found;
      },
    });
    const peers = { at: (address: PeerAddress) => slow(deps.peers.at(address)) };
    const adding = changeMembers(alice, 'demo', post('b'), { ...deps, peers });
    await looked;
    await changeMembers(alice, 'demo', remove('b'), coordination(world));
    assert.deepEqual(await states(world), { 'c/demo-c': 'made' });
    goOn();
    await adding;
    assert.ok(!calls.includes('b create'));
    assert.deepEqual(await states(world), { 'c/demo-c': 'made' });
    assert.equal(worker(world, 'b'), undefined);
  });

  test('removal: the ledger records that a create is sent before it is sent', async () => {
    const world = await made('c');
    const unrequested: unknown[] = [];
    const watched: Passage = {
      ...openPassage,
      request: (cluster, call, effect) => {
        if (call === 'create') {
          const [entry] = world.cluster.journal.values();
          const { members } = unpackLedger('', JSON.parse(entry?.state ?? '{}'));
          unrequested.push(members.find(({ clusterId }) => clusterId === cluster)?.unrequested);
        }
        return effect();
      },
    };
    await changeMembers(alice, 'demo', post('b', 'd'), coordination(world, watched));
    assert.deepEqual(unrequested, [undefined, undefined]);
    assert.deepEqual(await states(world), { 'c/demo-c': 'made', 'b/demo-b': 'made', 'd/demo-d': 'made' });
  });

  test('add: a member that is added again while it is being ended is created anew with another key', async () => {
    const world = await made('b');
    const key = worker(world, 'b')?.worker?.keyId;
    await changeMembers(alice, 'demo', remove('b'), coordination(world, away('b')));
    await changeMembers(alice, 'demo', post('b'), coordination(world, away('b')));
    assert.equal(worker(world, 'b')?.worker?.keyId, key);
    const { pending } = await changeMembers(alice, 'demo', post('b'), coordination(world));
    assert.deepEqual(pending, []);
    assert.notEqual(worker(world, 'b')?.worker?.keyId, key);
    assert.deepEqual(await states(world), { 'b/demo-b': 'made' });
  });

  test('add: a member that is added again waits until the previous service is gone', async () => {
    const world = await made('b');
    const lasting: Passage = {
      ...openPassage,
      request: (_cluster, call, effect) => {
        if (call === 'remove') throw new PeerError('failed', 'it cannot be removed now');
        return effect();
      },
    };
    await changeMembers(alice, 'demo', remove('b'), coordination(world, lasting));
    const { pending } = await changeMembers(alice, 'demo', post('b'), coordination(world, lasting));
    assert.deepEqual(pending, [
      { member: 'b/demo-b', reason: 'the previous service of this name is still being deleted' },
    ]);
  });

  test('add: if the definition cannot be stored, no ledger remains', async () => {
    const world = worldOf('b');
    await plain(world);
    const deps = coordination(world);
    const update = async () => {
      throw new Error('the image is not allowed');
    };
    await assert.rejects(
      changeMembers(alice, 'demo', post('b'), { ...deps, own: { ...deps.own, update } }),
      /not allowed/,
    );
    assert.equal(world.cluster.journal.size, 0);
  });

  test('add: a member that its owner deleted comes back only when it is added again', async () => {
    const world = await made('b');
    await endedByOwner(world, 'b');
    assert.deepEqual(await states(world), { 'b/demo-b': 'left' });
    assert.equal(worker(world, 'b'), undefined);
    await changeMembers(alice, 'demo', post('b'), coordination(world));
    assert.deepEqual(await states(world), { 'b/demo-b': 'made' });
  });

  const forgetKeys = ({ cluster }: World) => {
    for (const key of cluster.secrets.keys()) if (key.startsWith('member ')) cluster.secrets.delete(key);
  };
  const nothing = parseMembersChange('PUT', { members: [memberOn('b')] });

  test('key lost: a request of the owner installs a new key', async () => {
    const world = await made('b');
    forgetKeys(world);
    const { pending } = await changeMembers(alice, 'demo', nothing, coordination(world));
    assert.deepEqual(pending, []);
    assert.deepEqual(await states(world), { 'b/demo-b': 'made' });
    assert.equal(worker(world, 'b')?.worker?.keyId, (await onlyMember(world)).keyId);
  });

  test('key lost: without credentials for its cluster, the member is in conflict', async () => {
    const world = await made('b');
    forgetKeys(world);
    const { pending } = await changeMembers(
      { principal: { kind: 'service-token', service: 'demo' } },
      'demo',
      post('c'),
      coordination(world),
    );
    assert.deepEqual(pending[0], { member: 'b/demo-b', reason: 'key lost: update the service once with PUT' });
    assert.deepEqual(await states(world), { 'b/demo-b': 'conflict', 'c/demo-c': 'wanted' });
  });
});

describe('members: names that are no members', () => {
  const nobody = { cluster_id: 'zz', service_name: 'nobody' };

  for (const method of ['DELETE', 'PUT'] as const) {
    test(`a ${method} that names only these reports them and changes nothing`, async () => {
      const world = await made('b');
      const asked: string[] = [];
      const passage: Passage = {
        ...openPassage,
        request: (cluster, call, effect) => {
          asked.push(`${cluster} ${call}`);
          return effect();
        },
      };
      const { version } = world.cluster.services.get('demo') ?? {};
      const intention = parseMembersChange(method, { members: [nobody] });
      const { record, pending, absent } = await changeMembers(alice, 'demo', intention, coordination(world, passage));
      assert.deepEqual({ pending, absent }, { pending: [], absent: ['zz/nobody'] });
      assert.equal(record.version, version);
      assert.equal(serviceOf(world).federation?.revision, 1);
      assert.deepEqual(asked, []);
    });
  }

  test('they are reported in addition to the changes of other members', async () => {
    const world = await made('b', 'c');
    const intention = parseMembersChange('DELETE', { members: [memberOn('b'), nobody] });
    const { absent } = await changeMembers(alice, 'demo', intention, coordination(world));
    assert.deepEqual(absent, ['zz/nobody']);
    assert.deepEqual(await states(world), { 'c/demo-c': 'made' });
  });

  test('members that are still leaving are not reported', async () => {
    const world = await made('b');
    await changeMembers(alice, 'demo', remove('b'), coordination(world, away('b')));
    const { absent } = await changeMembers(alice, 'demo', remove('b'), coordination(world));
    assert.equal(absent, undefined);
    assert.deepEqual(await states(world), {});
  });
});

test('members: a change with an old version changes nothing, also for members that their owner deleted', async () => {
  const world = await made('b');
  await endedByOwner(world, 'b');
  const change = changeMembers(alice, 'demo', post('b'), coordination(world), 'old' as Version);
  await assert.rejects(change, (error) => error instanceof OscarError && error.code === 'old-version');
  assert.deepEqual(await states(world), { 'b/demo-b': 'left' });
  const { version } = world.cluster.services.get('demo') ?? {};
  await changeMembers(alice, 'demo', post('b'), coordination(world), version);
  assert.deepEqual(await states(world), { 'b/demo-b': 'made' });
});
