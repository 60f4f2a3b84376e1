import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { OscarError } from '../../lib/oscar-error.ts';
import type { Version } from '../../lib/version.ts';
import { FederationError, PeerError } from '../../peers/index.ts';
import { away, made, plain, post, serviceOf, states, worker } from './change-federation.fixture.ts';
import { changeFederation, changeMembers } from './change-federation.ts';
import type { Coordination } from './coordination.ts';
import { Ledgers } from './ledger.ts';
import { alice, coordination, federatedBody, worldOf } from './model/coordinator.fixture.ts';

describe('update: a new definition', () => {
  test('all members have the next revision when the answer arrives', async () => {
    const world = await made('b', 'c');
    const { record, pending } = await changeFederation(
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

  test('it is stored although a member is unreachable, and the answer names that member', async () => {
    const world = await made('b', 'c');
    const { record, pending } = await changeFederation(
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
    test(`with ${name}, members and their grant stay as they are`, async () => {
      const world = await made('b');
      const { federation: _, ...body } = federatedBody([]);
      await changeFederation(alice, change({ ...body, environment: {} }), undefined, coordination(world));
      assert.deepEqual(
        serviceOf(world).definition.federation?.members?.map((each) => each.cluster_id),
        ['b'],
      );
      assert.equal(worker(world, 'b')?.worker?.revision, 2);
    });
  }

  test('it reaches a member although another task on it recorded a failure meanwhile', async () => {
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
    const { pending } = await changeFederation(alice, { ...federatedBody([]), script: 'new' }, undefined, overtaken);
    assert.deepEqual(pending, []);
    assert.match(worker(world, 'b')?.body ?? '', /"script":"new"/);
  });

  test('after a restore from a backup, the revision goes past the revision of the members', async () => {
    const world = await made('b', 'c');
    const there = worker(world, 'b');
    assert.ok(there?.worker);
    const later = { ...there, worker: { ...there.worker, revision: 40, digest: 'later' } };
    world.managers.get('b')?.services.set('demo-b', later);
    const { record, pending } = await changeFederation(
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

  test('a member that is always ahead gets a reason, and is asked at most twice', async () => {
    const world = await made('b');
    const manager = world.managers.get('b');
    assert.ok(manager);
    let known = 10;
    manager.rekey = () => {
      throw new PeerError('stale', 'it has a later revision');
    };
    manager.inspect = () => ({ revision: (known *= 2), digest: 'later', instance: manager.instance });
    const { pending } = await changeFederation(alice, federatedBody([]), undefined, coordination(world));
    assert.match(pending[0]?.reason ?? '', /a later revision than this manager/);
    assert.equal(known, 40);
  });

  test('with other members, new ones are created and missing ones are removed', async () => {
    const world = await made('b', 'c');
    await changeFederation(alice, federatedBody(['c', 'd']), undefined, coordination(world));
    assert.deepEqual(await states(world), { 'c/demo-c': 'made', 'd/demo-d': 'made' });
    assert.equal(worker(world, 'b'), undefined);
    assert.ok(worker(world, 'd')?.worker);
  });

  test('a new member on an unknown cluster is rejected', async () => {
    const world = await made('b');
    const change = changeFederation(alice, federatedBody(['b', 'x']), undefined, coordination(world));
    await assert.rejects(change, (error) => error instanceof FederationError && error.code === 'invalid-federation');
    assert.equal(serviceOf(world).federation?.revision, 1);
  });

  test('an old version changes nothing', async () => {
    const world = await made('b');
    const change = changeFederation(alice, federatedBody(['b']), 'old' as Version, coordination(world));
    await assert.rejects(
      change,
      (error) => error instanceof OscarError && ['old-version', 'conflict'].includes(error.code),
    );
    assert.equal(worker(world, 'b')?.worker?.revision, 1);
  });

  test('adding members to a plain service uses the refresh token that it has', async () => {
    const world = worldOf('b');
    await plain(world);
    const blank = { environment: { secrets: { refresh_token: '', PASSWORD: '' } } };
    await changeFederation(alice, { ...federatedBody(['b']), ...blank }, undefined, coordination(world));
    assert.deepEqual(await states(world), { 'b/demo-b': 'made' });
    const secrets = JSON.stringify([...world.cluster.secrets].map(([key, { values }]) => [key, Object.keys(values)]));
    assert.match(secrets, /federation\/grant/);
    assert.ok(!secrets.includes('refresh_token'), 'and no script gets it any more');
    const unnamed = worldOf('b');
    await plain(unnamed);
    const change = changeFederation(
      alice,
      { ...federatedBody(['b']), environment: {} },
      undefined,
      coordination(unnamed),
    );
    await assert.rejects(change, (error) => error instanceof FederationError && error.code === 'no-grant');
  });

  test('a service without members gets a plain update', async () => {
    const world = worldOf('b');
    await plain(world);
    const { record } = await changeFederation(
      alice,
      { ...federatedBody([]), script: 'new' },
      undefined,
      coordination(world),
    );
    assert.equal(record.service.federation, undefined);
    assert.equal(world.cluster.journal.size, 0);
  });

  test('concurrent changes are applied one after the other, and none is lost', async () => {
    const world = await made('b');
    const scripts = ['one', 'two', 'three', 'four'];
    const changes = scripts.map((script) =>
      changeFederation(alice, { ...federatedBody([]), script }, undefined, coordination(world)),
    );
    await Promise.all([...changes, changeMembers(alice, 'demo', post('c'), coordination(world))]);
    const { definition, federation } = serviceOf(world);
    assert.equal(federation?.revision, 6);
    assert.deepEqual(await states(world), { 'b/demo-b': 'made', 'c/demo-c': 'made' });
    assert.match(worker(world, 'b')?.body ?? '', new RegExp(`"script":"${definition.script}"`));
  });
});
