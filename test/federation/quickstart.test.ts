import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  buckets,
  type Clusters,
  create,
  expectNothing,
  expectStatus,
  federated,
  ids,
  member,
  read,
  type SeenFederation,
  services,
  startClusters,
  states,
  status,
} from '../support/federation.ts';

let them: Clusters;
before(async () => {
  them = await startClusters();
});
after(() => them[Symbol.asyncDispose]());

/** `r0` at the origin, with `r1` at a and `r2` at b; names begin with what the test is called by. */
function body(prefix: string, more: Record<string, unknown> = {}) {
  const members = [member(them.a, `${prefix}r1`), member(them.b, `${prefix}r2`)];
  return federated(`${prefix}r0`, members, them.clusters, more);
}

describe('quickstart: as a mesh', () => {
  test('create, verify with the service token, add a replica with it as owner, update, delete all', async () => {
    const { origin, a, b, c, people } = them;
    const as = people.alice;
    await create(origin, as, body('mesh'));
    const { token } = await read(origin, as, 'meshr0');

    const verified = await origin.call('GET', '/system/replicas/meshr0', { as: `Bearer ${token}` });
    const seen = expectStatus(verified, 200).json() as { topology: string; replicas: SeenFederation['members'] };
    assert.equal(seen.topology, 'mesh');
    assert.deepEqual(ids({ members: seen.replicas }), ['oscar-cluster-a/meshr1', 'oscar-cluster-b/meshr2']);

    const added = await origin.call('POST', '/system/replicas/meshr0', {
      as,
      body: { replicas: [{ type: 'oscar', cluster_id: 'oscar-cluster-c', service_name: 'meshr3' }] },
    });
    assert.equal((expectStatus(added, 200).json() as SeenFederation).warnings, undefined, added.text);
    assert.equal((await read(c, as, 'meshr3')).name, 'meshr3', 'it is really there (F26)');
    const others = ['oscar-cluster/meshr0', 'oscar-cluster-b/meshr2', 'oscar-cluster-c/meshr3'];
    assert.deepEqual(ids((await read(a, as, 'meshr1')).federation ?? {}), others, 'everybody hears of it');

    const changed = body('mesh', { script: '#!/bin/sh\necho changed\n' });
    expectStatus(await origin.call('PUT', '/system/services', { as, body: withoutMembers(changed) }), 204);
    for (const [at, name] of [
      [origin, 'meshr0'],
      [a, 'meshr1'],
      [b, 'meshr2'],
      [c, 'meshr3'],
    ] as const) {
      assert.match((await read(at, as, name)).script, /changed/, `the script at ${at.id}`);
    }
    const { members } = await status(origin, as, 'meshr0');
    assert.deepEqual(
      members?.map(({ state, revision }) => [state, revision]),
      Array.from({ length: 3 }, () => ['ready', 3]),
    );
    assert.ok(members?.every(({ last_seen = '' }) => Date.parse(last_seen) > 0));

    expectStatus(await origin.call('DELETE', '/system/services/meshr0', { as }), 204);
    await expectNothing(them.all, ['meshr0', 'meshr1', 'meshr2', 'meshr3']);
  });
});

describe('quickstart: as a star', () => {
  test('a change between star and mesh changes the members that workers list (F27)', async () => {
    const { origin, a, people } = them;
    const as = people.alice;
    await create(origin, as, body('star', { federation: { topology: 'star' } }));
    const known = async () => ids((await read(a, as, 'starr1')).federation ?? {});
    assert.deepEqual(await known(), []);

    const put = (topology: string) =>
      origin.call('PUT', '/system/services', { as, body: body('star', { federation: { topology } }) });
    expectStatus(await put('mesh'), 204);
    assert.deepEqual(await known(), ['oscar-cluster/starr0', 'oscar-cluster-b/starr2']);
    assert.equal((await status(origin, as, 'starr0')).topology, 'mesh');
    expectStatus(await put('star'), 204);
    assert.deepEqual(await known(), []);
    assert.deepEqual(states(await status(origin, as, 'starr0')), [
      'oscar-cluster-a/starr1: ready',
      'oscar-cluster-b/starr2: ready',
    ]);
  });

  test('a changed priority changes only the named member (F27)', async () => {
    const { origin, a, people } = them;
    const as = people.alice;
    await create(origin, as, body('prio'));
    const [first, second] = [member(them.a, 'prior1'), member(them.b, 'prior2')];
    const change = { members: [second], update: [{ ...second, priority: 7 }] };
    const changed = await origin.call('PUT', '/system/federation/prior0', { as, body: change });
    const { members } = expectStatus(changed, 200).json() as SeenFederation;
    assert.deepEqual(
      members?.map(({ priority }) => priority),
      [0, 7],
    );
    const seen = (await read(a, as, 'prior1')).federation?.members?.find(
      ({ service_name }) => service_name === 'prior2',
    );
    assert.equal(seen?.priority, 7, 'members hear of it');

    const alone = await origin.call('PUT', '/system/federation/prior0', { as, body: [{ ...first, priority: 3 }] });
    const now = (expectStatus(alone, 200).json() as SeenFederation).members;
    assert.deepEqual(
      now?.map(({ priority }) => priority),
      [3, 7],
    );
    const nobody = { members: [member(them.c, 'prior9')], update: [member(them.c, 'prior9', { priority: 9 })] };
    const unmatched = await origin.call('PUT', '/system/federation/prior0', { as, body: nobody });
    assert.deepEqual((expectStatus(unmatched, 200).json() as SeenFederation).members, now, 'nobody is like that');
  });

  test('a removed member is deleted there, and nothing with its name elsewhere (F25)', async () => {
    const { origin, a, b, people } = them;
    const as = people.alice;
    await create(origin, as, { ...body('bystander'), name: 'goner1', federation: undefined, clusters: {} });
    await create(origin, as, body('gone'));
    const removal = { members: [member(a, 'goner1')], delete: true };
    const removed = await origin.call('DELETE', '/system/federation/goner0', { as, body: removal });
    assert.deepEqual(ids(expectStatus(removed, 200).json() as SeenFederation), ['oscar-cluster-b/goner2']);
    assert.ok(!(await services(a)).includes('goner1'));
    assert.ok((await services(origin)).includes('goner1'), 'the one of that name here is another service');
    assert.deepEqual(ids((await read(b, as, 'goner2')).federation ?? {}), ['oscar-cluster/goner0']);
    assert.deepEqual(states(await status(origin, as, 'goner0')), ['oscar-cluster-b/goner2: ready']);
  });

  test('delete: false leaves the worker as a plain service, which accepts jobs', async () => {
    const { origin, a, people } = them;
    const as = people.alice;
    await create(origin, as, body('alone', { script: '#!/bin/sh\necho alone\n' }));
    const refused = await a.call('POST', '/run/aloner1', { as, body: 'x' });
    assert.equal(refused.status, 409, 'as a worker it takes none');
    assert.match(refused.text, /aloner0.*at http:\/\/127/);

    const removal = { members: [member(a, 'aloner1')], delete: false };
    expectStatus(await origin.call('DELETE', '/system/federation/aloner0', { as, body: removal }), 200);
    assert.deepEqual(ids((await read(a, as, 'aloner1')).federation ?? {}), []);
    const ran = expectStatus(await a.call('POST', '/run/aloner1', { as, body: 'x' }), 200);
    assert.match(Buffer.from(ran.text, 'base64').toString() + ran.text, /alone/);
    expectStatus(await origin.call('DELETE', '/system/services/aloner0', { as }), 204);
    assert.ok((await services(a)).includes('aloner1'), 'it is no longer of the federation');
  });

  test('a deleted coordinator leaves nothing at its members (F24), unless cascade=false', async () => {
    const { origin, a, b, people } = them;
    const as = people.alice;
    await create(origin, as, body('cascade'));
    expectStatus(await origin.call('DELETE', '/system/services/cascader0?cascade=false', { as }), 204);
    assert.ok((await services(a)).includes('cascader1') && (await services(b)).includes('cascader2'));
    for (const [at, name] of [
      [a, 'cascader1'],
      [b, 'cascader2'],
    ] as const) {
      expectStatus(await at.call('DELETE', `/system/services/${name}`, { as }), 204);
    }
    await create(origin, as, body('cascade'));
    expectStatus(await origin.call('DELETE', '/system/services/cascader0', { as }), 204);
    await expectNothing(them.all, ['cascader0', 'cascader1', 'cascader2']);
  });

  test('DELETE without a body removes all members, and the topology stays', async () => {
    const { origin, a, b, people } = them;
    const as = people.alice;
    await create(origin, as, body('every'));
    const removed = await origin.call('DELETE', '/system/replicas/everyr0', { as });
    assert.deepEqual(expectStatus(removed, 200).json(), { topology: 'mesh', replicas: null });
    await expectNothing([a, b], ['everyr1', 'everyr2']);
    assert.equal((await read(origin, as, 'everyr0')).name, 'everyr0');
  });
});

test('cluster id: a coordinator without cluster_id gets the id of its cluster, and no worker expands again (F21)', async () => {
  const { origin, a, b, people } = them;
  const as = people.alice;
  const sent = [a, b].map(({ wire }) => wire.seen.length);
  await create(origin, as, body('plain'));
  assert.deepEqual(ids((await read(a, as, 'plainr1')).federation ?? {})[0], 'oscar-cluster/plainr0');
  const requests = [a, b].map(({ wire }, index) => wire.seen.length - (sent[index] ?? 0));
  assert.deepEqual(requests, [2, 2], 'a probe and a create each');
});

test('endpoint: any address can be an endpoint member; nothing is deployed there, and it fails no create (F18)', async () => {
  const { origin, people } = them;
  const url = 'https://example.org/run';
  const members = [member(them.a, 'anyr1'), { type: 'endpoint', url, cluster_id: '', service_name: '' }];
  await create(origin, people.alice, federated('anyr0', members, them.clusters));
  const { members: shown } = await status(origin, people.alice, 'anyr0');
  assert.deepEqual(
    shown?.map(({ state }) => state),
    ['ready', 'ready'],
  );
});

test('buckets: workers create no buckets, and the origin creates its own', async () => {
  const { origin, a, b, people } = them;
  await create(origin, people.alice, body('data'));
  assert.ok((await buckets(origin)).includes('datar0'));
  await expectNoBucket('datar0');
  await expectNoBucket('datar1');

  async function expectNoBucket(name: string): Promise<void> {
    for (const each of [a, b]) assert.ok(!(await buckets(each)).includes(name), `${name} at ${each.id}`);
  }
});

/** A PUT without members leaves them as they are. */
function withoutMembers({ federation: { members: _, ...federation }, ...rest }: ReturnType<typeof body>) {
  return { ...rest, federation };
}
