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

/** The same way, and what is asked on it: the cluster and the call. */
function noted(passage: Passage): { readonly passage: Passage; readonly calls: string[] } {
  const calls: string[] = [];
  const request: Passage['request'] = (cluster, call, effect) => {
    calls.push(`${cluster} ${call}`);
    return passage.request(cluster, call, effect);
  };
  return { passage: { ...passage, request }, calls };
}

describe('members', () => {
  test('are added to a service that stood alone, with the refresh token that was among its secrets', async () => {
    const world = worldOf('b');
    await plain(world);
    const { record, pending } = await changeMembers(alice, 'demo', post('b'), coordination(world));
    assert.deepEqual(pending, []);
    assert.ok(record.service.federation?.role === 'coordinator' && record.service.federation.committed);
    assert.equal(worker(world, 'b')?.worker?.uid, record.service.federation.uid);
    assert.equal(record.service.definition.federation?.topology, 'none');
  });

  test('need a refresh token', async () => {
    const world = worldOf('b');
    await plain(world, { environment: {} });
    const change = changeMembers(alice, 'demo', post('b'), coordination(world));
    await assert.rejects(change, (error) => error instanceof FederationError && error.code === 'no-grant');
    assert.equal(world.cluster.journal.size, 0);
  });

  test('on clusters that are unknown, away or refusing are written down, and it is no error', async () => {
    const world = await made();
    world.managers.get('c')?.services.set('demo-c', remoteService('bob'));
    const { pending } = await changeMembers(alice, 'demo', post('x', 'b', 'c', 'd'), coordination(world, away('b')));
    assert.deepEqual(
      pending.map(({ member, reason }) => `${member}: ${reason}`),
      [
        'x/demo-x: cluster "x" is unknown: name it under clusters',
        'b/demo-b: it did not answer',
        'c/demo-c: the name belongs to another service there: choose another',
      ],
    );
    assert.deepEqual(await states(world), {
      'x/demo-x': 'wanted',
      'b/demo-b': 'wanted',
      'c/demo-c': 'conflict',
      'd/demo-d': 'made',
    });
  });

  test('that leave are what they were, and their keys are gone', async () => {
    const world = worldOf('b', 'c', 'd');
    world.managers.get('b')?.services.set('demo-b', remoteService('alice'));
    const before = structuredClone(world.managers.get('b')?.snapshot());
    await createFederation(alice, federatedBody(['b', 'c']), coordination(world));
    await changeMembers(alice, 'demo', remove('b'), coordination(world));
    assert.deepEqual(world.managers.get('b')?.snapshot(), before);
    assert.deepEqual(await states(world), { 'c/demo-c': 'made' });
    assert.equal([...world.cluster.secrets.keys()].filter((key) => key.startsWith('member ')).length, 1);
  });

  test('that are detached stay as services of their own', async () => {
    const world = await made('b', 'c');
    const detach = parseMembersChange('DELETE', { members: [memberOn('b')], delete: false });
    await changeMembers(alice, 'demo', detach, coordination(world));
    assert.ok(worker(world, 'b'));
    assert.equal(worker(world, 'b')?.worker, undefined);
  });

  test('that cannot be told that they leave are removed from the definition at once, and told later', async () => {
    const world = await made('b', 'c');
    await changeMembers(alice, 'demo', remove('b'), coordination(world, away('b')));
    assert.deepEqual(
      serviceOf(world).definition.federation?.members?.map((each) => each.cluster_id),
      ['c'],
    );
    assert.deepEqual(await states(world), { 'c/demo-c': 'made', 'b/demo-b': 'undoing' });
  });

  test('removal: a member that was never told to be made is gone at once, whether or not it can be asked', async () => {
    const world = await made('c');
    world.managers.get('d')?.services.set('demo-d', remoteService('bob'));
    await changeMembers(alice, 'demo', post('b', 'd', 'x'), coordination(world, away('b')));
    assert.deepEqual(await states(world), {
      'c/demo-c': 'made',
      'b/demo-b': 'wanted',
      'd/demo-d': 'conflict',
      'x/demo-x': 'wanted',
    });
    const { passage, calls } = noted(away('b', 'd'));
    await changeMembers(alice, 'demo', remove('b', 'd', 'x'), coordination(world, passage));
    assert.deepEqual(await states(world), { 'c/demo-c': 'made' });
    assert.deepEqual(
      calls.filter((call) => !call.startsWith('c ')),
      [],
    );
    assert.equal([...world.cluster.secrets.keys()].filter((key) => key.startsWith('member ')).length, 1);
  });

  test('removal: a member that may have been made is ended later if it cannot be asked now', async () => {
    const world = await made('c');
    // It is made, and nobody hears of it.
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

  test('removal: a member that is removed while it is being looked at is not made afterwards', async () => {
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

  test('removal: that a member is told to be made is written down before it is', async () => {
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

  test('that are added again while they are being ended are made anew, under another key', async () => {
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

  test('that are added again wait until what was there before is ended', async () => {
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
    assert.deepEqual(pending, [{ member: 'b/demo-b', reason: 'what was there before is still being ended' }]);
  });

  test('that cannot be stored leave no ledger behind', async () => {
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

  test('whose owner ended them there come back only when they are added again', async () => {
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

  test('whose key is lost get another when their owner is there', async () => {
    const world = await made('b');
    forgetKeys(world);
    const { pending } = await changeMembers(alice, 'demo', nothing, coordination(world));
    assert.deepEqual(pending, []);
    assert.deepEqual(await states(world), { 'b/demo-b': 'made' });
    assert.equal(worker(world, 'b')?.worker?.keyId, (await onlyMember(world)).keyId);
  });

  test('whose key is lost are in conflict where nobody is known there', async () => {
    const world = await made('b');
    forgetKeys(world);
    const { pending } = await changeMembers(
      { principal: { kind: 'service-token', service: 'demo' } },
      'demo',
      post('c'),
      coordination(world),
    );
    assert.deepEqual(pending[0], { member: 'b/demo-b', reason: 'key lost: PUT the service once' });
    assert.deepEqual(await states(world), { 'b/demo-b': 'conflict', 'c/demo-c': 'wanted' });
  });
});

describe('members that are none', () => {
  const nobody = { cluster_id: 'zz', service_name: 'nobody' };

  for (const method of ['DELETE', 'PUT'] as const) {
    test(`are told to whoever names only them in a ${method}, and nothing is changed`, async () => {
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

  test('are told beside what is done about others', async () => {
    const world = await made('b', 'c');
    const intention = parseMembersChange('DELETE', { members: [memberOn('b'), nobody] });
    const { absent } = await changeMembers(alice, 'demo', intention, coordination(world));
    assert.deepEqual(absent, ['zz/nobody']);
    assert.deepEqual(await states(world), { 'c/demo-c': 'made' });
  });

  test('are not those that are still leaving', async () => {
    const world = await made('b');
    await changeMembers(alice, 'demo', remove('b'), coordination(world, away('b')));
    const { absent } = await changeMembers(alice, 'demo', remove('b'), coordination(world));
    assert.equal(absent, undefined);
    assert.deepEqual(await states(world), {});
  });
});

test('members that are named under an old version stay what they were, also those that their owner has ended', async () => {
  const world = await made('b');
  await endedByOwner(world, 'b');
  const change = changeMembers(alice, 'demo', post('b'), coordination(world), 'old' as Version);
  await assert.rejects(change, (error) => error instanceof OscarError && error.code === 'old-version');
  assert.deepEqual(await states(world), { 'b/demo-b': 'left' });
  const { version } = world.cluster.services.get('demo') ?? {};
  await changeMembers(alice, 'demo', post('b'), coordination(world), version);
  assert.deepEqual(await states(world), { 'b/demo-b': 'made' });
});
