import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { OscarError } from '../base/oscar-error.ts';
import { Secret } from '../base/secret.ts';
import type { Version } from '../cluster/index.ts';
import { changeMembers, changeService } from './change.ts';
import type { Coordination } from './coordinator/coordination.ts';
import {
  alice,
  coordination,
  federatedBody,
  memberOn,
  type World,
  worldOf,
} from './coordinator/model/coordinator.fixture.ts';
import { openPassage, type Passage } from './coordinator/model/model-cluster.fixture.ts';
import { remoteService } from './coordinator/model/model-manager.fixture.ts';
import { deploy } from './deploy.ts';
import { FederationError } from './errors.ts';
import { type LedgerMember, memberId } from './ledger.ts';
import { Ledgers } from './ledger-store.ts';
import { readIntention } from './members.ts';
import { type Credential, PeerError } from './peer/peer.ts';
import { Reconciler } from './reconcile.ts';

async function made(...clusters: string[]): Promise<World> {
  const world = worldOf('b', 'c', 'd');
  await deploy(alice, federatedBody(clusters), coordination(world));
  return world;
}

const away = (...clusters: string[]): Passage => ({
  ...openPassage,
  request: (cluster, _call, effect) => {
    if (clusters.includes(cluster)) throw new PeerError('unreachable', 'it did not answer');
    return effect();
  },
});

const serviceOf = ({ cluster }: World) => {
  const service = cluster.services.get('demo')?.service;
  assert.ok(service);
  return service;
};
const worker = (world: World, id: string) => world.managers.get(id)?.services.get(`demo-${id}`);

async function states(world: World): Promise<Record<string, LedgerMember['state']>> {
  const entry = await new Ledgers(coordination(world)).read(serviceOf(world).federation?.uid ?? '');
  return Object.fromEntries((entry?.ledger.members ?? []).map((each) => [memberId(each), each.state]));
}

async function onlyMember(world: World): Promise<LedgerMember> {
  const entry = await new Ledgers(coordination(world)).read(serviceOf(world).federation?.uid ?? '');
  const [member] = entry?.ledger.members ?? [];
  assert.ok(member);
  return member;
}

/** The owner of a worker has ended it there, and the coordinator has noticed. */
async function endedByOwner(world: World, id: string): Promise<void> {
  const manager = world.managers.get(id);
  manager?.tombstones.add(worker(world, id)?.worker?.keyId ?? '');
  manager?.services.delete(`demo-${id}`);
  await changeService(alice, { ...federatedBody([]), script: 'new' }, undefined, coordination(world));
}

const post = (...ids: string[]) => readIntention('POST', { members: ids.map(memberOn) });
const remove = (...ids: string[]) => readIntention('DELETE', { members: ids.map(memberOn) });

describe('a new definition', () => {
  test('is at all members when the answer comes, one revision later', async () => {
    const world = await made('b', 'c');
    const { record, pending } = await changeService(
      alice,
      { ...federatedBody(['b', 'c']), script: 'new' },
      undefined,
      coordination(world),
    );
    assert.deepEqual(pending, []);
    assert.equal(record.service.federation?.revision, 2);
    for (const id of ['b', 'c']) {
      assert.equal(worker(world, id)?.worker?.revision, 2);
      assert.match(worker(world, id)?.body ?? '', /"script":"new"/);
    }
  });

  test('is stored although a member is away, which is named', async () => {
    const world = await made('b', 'c');
    const { record, pending } = await changeService(
      alice,
      { ...federatedBody([]), script: 'new' },
      undefined,
      coordination(world, away('c')),
    );
    assert.deepEqual(pending, [{ member: 'c/demo-c', reason: 'it did not answer' }]);
    assert.equal(record.service.definition.script, 'new');
    assert.equal(worker(world, 'b')?.worker?.revision, 2);
    assert.equal(worker(world, 'c')?.worker?.revision, 1);
  });

  const silences: [string, (body: Record<string, unknown>) => Record<string, unknown>][] = [
    ['no federation in it', ({ federation: _, ...body }) => body],
    ['no members in it', (body) => ({ ...body, federation: { topology: 'mesh' } })],
    ['an empty list of members in it', (body) => ({ ...body, Federation: { members: [] } })],
  ];
  for (const [name, change] of silences) {
    test(`leaves the members as they are with ${name}, and keeps their grant`, async () => {
      const world = await made('b');
      const { federation: _, ...body } = federatedBody([]);
      await changeService(alice, change({ ...body, environment: {} }), undefined, coordination(world));
      assert.deepEqual(
        serviceOf(world).definition.federation?.members?.map((each) => each.cluster_id),
        ['b'],
      );
      assert.equal(worker(world, 'b')?.worker?.revision, 2);
    });
  }

  test('reaches a member although somebody else was at work on it, and wrote down why they could not', async () => {
    const world = await made('b');
    const deps = coordination(world);
    let isFirst = true;
    const claim: Coordination['journal']['claim'] = async (key, version) => {
      if (!isFirst) return deps.journal.claim(key, version);
      isFirst = false;
      await new Ledgers(deps).amend(serviceOf(world).federation?.uid ?? '', (ledger) => ({
        ...ledger,
        members: ledger.members.map((member) => ({ ...member, state: 'wanted', reason: 'nobody to ask as' })),
      }));
      return 'busy';
    };
    const overtaken = { ...deps, journal: { ...deps.journal, claim } };
    const { pending } = await changeService(alice, { ...federatedBody([]), script: 'new' }, undefined, overtaken);
    assert.deepEqual(pending, []);
    assert.match(worker(world, 'b')?.body ?? '', /"script":"new"/);
  });

  test('goes past what a member knows, where this manager was restored from a backup', async () => {
    const world = await made('b', 'c');
    const there = worker(world, 'b');
    assert.ok(there?.worker);
    const later = { ...there, worker: { ...there.worker, revision: 40, digest: 'later' } };
    world.managers.get('b')?.services.set('demo-b', later);
    const { record, pending } = await changeService(
      alice,
      { ...federatedBody([]), script: 'new' },
      undefined,
      coordination(world),
    );
    assert.deepEqual(pending, []);
    assert.equal(record, world.cluster.services.get('demo'));
    for (const id of ['b', 'c']) {
      assert.match(worker(world, id)?.body ?? '', /"script":"new"/);
      assert.equal(worker(world, id)?.worker?.revision, 41);
    }
  });

  test('says of a member that always knows more why it is behind, and asks it no more than twice', async () => {
    const world = await made('b');
    const manager = world.managers.get('b');
    assert.ok(manager);
    let known = 10;
    manager.rekey = () => {
      throw new PeerError('stale', 'it has a later revision');
    };
    manager.inspect = () => ({ revision: (known *= 2), digest: 'later', instance: manager.instance });
    const { pending } = await changeService(alice, federatedBody([]), undefined, coordination(world));
    assert.match(pending[0]?.reason ?? '', /a later revision than this manager/);
    assert.equal(known, 40);
  });

  test('with other members makes these and ends those', async () => {
    const world = await made('b', 'c');
    await changeService(alice, federatedBody(['c', 'd']), undefined, coordination(world));
    assert.deepEqual(await states(world), { 'c/demo-c': 'made', 'd/demo-d': 'made' });
    assert.equal(worker(world, 'b'), undefined);
    assert.ok(worker(world, 'd')?.worker);
  });

  test('is refused with a new member on a cluster that nobody knows', async () => {
    const world = await made('b');
    const change = changeService(alice, federatedBody(['b', 'x']), undefined, coordination(world));
    await assert.rejects(change, (error) => error instanceof FederationError && error.code === 'invalid-federation');
    assert.equal(serviceOf(world).federation?.revision, 1);
  });

  test('under an old version changes nothing', async () => {
    const world = await made('b');
    const change = changeService(alice, federatedBody(['b']), 'old' as Version, coordination(world));
    await assert.rejects(
      change,
      (error) => error instanceof OscarError && ['old-version', 'conflict'].includes(error.code),
    );
    assert.equal(worker(world, 'b')?.worker?.revision, 1);
  });

  test('makes members of a service that was in no federation, with the refresh token that it had', async () => {
    const world = worldOf('b');
    await plain(world);
    const blank = { environment: { secrets: { refresh_token: '', PASSWORD: '' } } };
    await changeService(alice, { ...federatedBody(['b']), ...blank }, undefined, coordination(world));
    assert.deepEqual(await states(world), { 'b/demo-b': 'made' });
    const secrets = JSON.stringify([...world.cluster.secrets].map(([key, { values }]) => [key, Object.keys(values)]));
    assert.match(secrets, /federation\/grant/);
    assert.ok(!secrets.includes('refresh_token'), 'and no script gets it any more');
    const unnamed = worldOf('b');
    await plain(unnamed);
    const change = changeService(alice, { ...federatedBody(['b']), environment: {} }, undefined, coordination(unnamed));
    await assert.rejects(change, (error) => error instanceof FederationError && error.code === 'no-grant');
  });

  test('of a service without members is a plain update', async () => {
    const world = worldOf('b');
    await plain(world);
    const { record } = await changeService(
      alice,
      { ...federatedBody([]), script: 'new' },
      undefined,
      coordination(world),
    );
    assert.equal(record.service.federation, undefined);
    assert.equal(world.cluster.journal.size, 0);
  });

  test('at once with others is made one after the other, and none is lost', async () => {
    const world = await made('b');
    const scripts = ['one', 'two', 'three', 'four'];
    const changes = scripts.map((script) =>
      changeService(alice, { ...federatedBody([]), script }, undefined, coordination(world)),
    );
    await Promise.all([...changes, changeMembers(alice, 'demo', post('c'), coordination(world))]);
    const { definition, federation } = serviceOf(world);
    assert.equal(federation?.revision, 6);
    assert.deepEqual(await states(world), { 'b/demo-b': 'made', 'c/demo-c': 'made' });
    assert.match(worker(world, 'b')?.body ?? '', new RegExp(`"script":"${definition.script}"`));
  });
});

/** A service that stands alone. */
async function plain(world: World, more: Record<string, unknown> = {}): Promise<void> {
  const deps = coordination(world);
  const { federation: _, ...body } = federatedBody([]);
  const record = await deps.own.create(
    alice.principal,
    { ...body, ...more },
    { role: 'coordinator', uid: '', revision: 0, committed: true },
  );
  const { federation: __, ...service } = record.service;
  await deps.services.replace(service, record.version);
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
    await deploy(alice, federatedBody(['b', 'c']), coordination(world));
    await changeMembers(alice, 'demo', remove('b'), coordination(world));
    assert.deepEqual(world.managers.get('b')?.snapshot(), before);
    assert.deepEqual(await states(world), { 'c/demo-c': 'made' });
    assert.equal([...world.cluster.secrets.keys()].filter((key) => key.startsWith('member ')).length, 1);
  });

  test('that are detached stay as services of their own', async () => {
    const world = await made('b', 'c');
    const detach = readIntention('DELETE', { members: [memberOn('b')], delete: false });
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
  const nothing = readIntention('PUT', { members: [memberOn('b')] });

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

describe('members that the administrator adds to the federation of a user', () => {
  const admin = {
    principal: { kind: 'admin' },
    credential: { kind: 'basic', username: 'oscar', password: new Secret('of this cluster') },
  } as const;
  const isSelf = () => true;
  const account = { endpoint: 'https://c.example', auth_user: 'oscar', auth_password: 'of that cluster' };
  const adding = readIntention('POST', { members: [memberOn('c')], clusters: { c: account } });

  /** By whom c is asked. */
  function askedBy(world: World): Credential[] {
    const asked: Credential[] = [];
    const manager = world.managers.get('c');
    if (manager) manager.accepts = (as) => asked.push(as) > 0;
    return asked;
  }

  test('are made with the grant of its owner, to whom they belong, and with no account of the administrator', async () => {
    const world = await made('b');
    const asked = askedBy(world);
    const mint = async () => new Secret('of alice');
    const { pending } = await changeMembers(admin, 'demo', adding, coordination(world, openPassage, { mint, isSelf }));
    assert.deepEqual(pending, []);
    assert.ok(asked.length > 0 && asked.every((as) => as.kind === 'bearer' && as.token.reveal() === 'of alice'));
  });

  test('wait for their owner where there is no grant', async () => {
    const world = await made('b');
    const asked = askedBy(world);
    const { pending } = await changeMembers(admin, 'demo', adding, coordination(world, openPassage, { isSelf }));
    assert.deepEqual(pending, [
      { member: 'c/demo-c', reason: "nobody's credentials are at hand: PUT the service once" },
    ]);
    const body = { ...federatedBody(['b', 'c', 'd']), clusters: { c: account } };
    await changeService(admin, body, undefined, coordination(world, openPassage, { isSelf }));
    assert.deepEqual(asked, []);
    assert.deepEqual(await states(world), { 'b/demo-b': 'made', 'c/demo-c': 'wanted', 'd/demo-d': 'wanted' });
    await changeService(alice, federatedBody([]), undefined, coordination(world));
    assert.deepEqual(await states(world), { 'b/demo-b': 'made', 'c/demo-c': 'made', 'd/demo-d': 'made' });
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
      const intention = readIntention(method, { members: [nobody] });
      const { record, pending, absent } = await changeMembers(alice, 'demo', intention, coordination(world, passage));
      assert.deepEqual({ pending, absent }, { pending: [], absent: ['zz/nobody'] });
      assert.equal(record.version, version);
      assert.equal(serviceOf(world).federation?.revision, 1);
      assert.deepEqual(asked, []);
    });
  }

  test('are told beside what is done about others', async () => {
    const world = await made('b', 'c');
    const intention = readIntention('DELETE', { members: [memberOn('b'), nobody] });
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

describe('two ids of one cluster', () => {
  const named = (clusterId: string, service: string) => ({ cluster_id: clusterId, service_name: service });
  const add = (...members: object[]) => readIntention('POST', { members });

  /** `b` and `twin` are the same manager. */
  async function twins(...members: object[]) {
    const { cluster, managers } = worldOf('b');
    const manager = managers.get('b');
    assert.ok(manager);
    const world: World = { cluster, managers: new Map(['b', 'twin'].map((id) => [id, manager])) };
    let time = Date.now();
    const deps = coordination(world, openPassage, { now: () => time, mint: async () => new Secret('minted') });
    await deploy(alice, { ...federatedBody([]), federation: { topology: 'star', members } }, deps);
    const reconciler = new Reconciler(deps);
    const pass = async () => {
      time += 3_600_000;
      await reconciler.pass();
    };
    return { world, manager, deps, pass };
  }

  test('are two members where their services are two', async () => {
    const { world, deps, pass } = await twins(named('b', 'x'));
    const { pending } = await changeMembers(alice, 'demo', add(named('twin', 'y')), deps);
    assert.deepEqual(pending, []);
    await pass();
    assert.deepEqual(await states(world), { 'b/x': 'made', 'twin/y': 'made' });
  });

  test('are no two members of one service: the later one is in conflict, and the worker stays as it is', async () => {
    const { world, manager, deps, pass } = await twins(named('b', 'x'));
    const { pending } = await changeMembers(alice, 'demo', add(named('twin', 'x')), deps);
    assert.deepEqual(pending, [
      { member: 'twin/x', reason: 'it is the same service as b/x, of the same manager: remove it' },
    ]);
    const before = manager.services.get('x');
    await pass();
    await pass();
    assert.equal(manager.services.get('x'), before);
    assert.deepEqual(await states(world), { 'b/x': 'made', 'twin/x': 'conflict' });
    await changeMembers(alice, 'demo', readIntention('DELETE', { members: [named('twin', 'x')] }), deps);
    assert.equal(manager.services.get('x')?.worker?.keyId, before?.worker?.keyId);
    assert.deepEqual(await states(world), { 'b/x': 'made' });
  });

  test('that are added together agree on one of them', async () => {
    const { world, manager, deps, pass } = await twins(named('b', 'y'));
    await changeMembers(alice, 'demo', add(named('b', 'x'), named('twin', 'x')), deps);
    await pass();
    const settled = await states(world);
    assert.deepEqual(Object.values(settled).toSorted(), ['conflict', 'made', 'made']);
    const before = manager.services.get('x');
    await pass();
    await pass();
    assert.equal(manager.services.get('x'), before);
    assert.deepEqual(await states(world), settled);
  });

  test('of the coordinator are no member of its own service', async () => {
    const { world, manager, deps } = await twins(named('b', 'x'));
    const here = { ...deps.here, instance: manager.instance };
    manager.services.set('demo', remoteService('alice'));
    const { pending } = await changeMembers(alice, 'demo', add(named('twin', 'demo')), { ...deps, here });
    assert.match(pending[0]?.reason ?? '', /it is the service itself, under another id of this cluster/);
    assert.deepEqual(await states(world), { 'b/x': 'made', 'twin/demo': 'conflict' });
  });
});

describe('with the token of the service', () => {
  const token = { principal: { kind: 'service-token', service: 'demo' } } as const;
  const forbidden = (error: unknown) => error instanceof OscarError && error.code === 'not-allowed';

  test('members that are not there yet are added, and wait for somebody who can ask for them', async () => {
    const world = await made('b');
    const { pending } = await changeMembers(token, 'demo', post('c'), coordination(world));
    assert.deepEqual(
      pending.map(({ member }) => member),
      ['c/demo-c'],
    );
    assert.match(pending[0]?.reason ?? '', /the owner's next PUT/);
    await changeService(alice, federatedBody([]), undefined, coordination(world));
    assert.deepEqual(await states(world), { 'b/demo-b': 'made', 'c/demo-c': 'made' });
  });

  test('a member that is there stays as it is', async () => {
    const world = await made('b');
    const again = readIntention('POST', { members: [{ ...memberOn('b'), priority: 9 }] });
    await changeMembers(token, 'demo', again, coordination(world));
    assert.equal(serviceOf(world).definition.federation?.members?.[0]?.priority, 0);
  });

  const others = {
    'members are not removed': remove('b'),
    'members are not changed': readIntention('PUT', { members: [memberOn('b')] }),
    'no clusters are named': readIntention('POST', {
      members: [memberOn('c')],
      clusters: { c: { endpoint: 'https://c' } },
    }),
    'no headers are set': readIntention('POST', { members: [{ ...memberOn('c'), headers: { a: 'b' } }] }),
    'no URL is added': readIntention('POST', { members: [{ type: 'endpoint', url: 'https://anywhere' }] }),
  };
  for (const [name, intention] of Object.entries(others)) {
    test(name, async () => {
      const world = await made('b');
      await assert.rejects(changeMembers(token, 'demo', intention, coordination(world)), forbidden);
    });
  }
});

test('members are changed where the coordinator is', async () => {
  const world = await made('b');
  const deps = coordination(world);
  const current = await deps.services.get('demo');
  assert.ok(current);
  const origin = { clusterId: 'o', service: 'origin', endpoint: 'https://o.example', store: '' };
  const federation = {
    role: 'worker',
    uid: 'u',
    revision: 1,
    keyId: 'k',
    digest: 'd',
    origin,
    adopted: false,
  } as const;
  await deps.services.replace({ ...current.service, federation }, current.version);
  await assert.rejects(
    changeMembers(alice, 'demo', post('c'), deps),
    (error) =>
      error instanceof FederationError &&
      error.code === 'not-the-coordinator' &&
      /https:\/\/o\.example/.test(error.message),
  );
});
