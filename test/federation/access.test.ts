import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import {
  basic,
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
import { service } from '../support/jobs.ts';
import { startWire } from '../support/wire.ts';

let registered: Clusters;
let named: Clusters;
before(async () => {
  [registered, named] = await Promise.all([startClusters({ registered: true }), startClusters()]);
});
after(async () => {
  await registered[Symbol.asyncDispose]();
  await named[Symbol.asyncDispose]();
});

describe('access: users who are not the owner (F28)', () => {
  for (const visibility of ['private', 'public'] as const) {
    test(`of a ${visibility} service change nothing, and see only what they may`, async () => {
      const { origin, a, people } = registered;
      const name = `${visibility}f`;
      await create(origin, people.alice, federated(name, [member(a, `${name}1`)], {}, { visibility }));
      const was = await status(origin, people.alice, name);
      const requests = a.wire.seen.length;
      const [hidden, seen] = visibility === 'private' ? [404, 404] : [403, 200];
      for (const spelling of ['federation', 'replicas']) {
        const path = `/system/${spelling}/${name}`;
        const body = { members: [member(a, 'evil')], clusters: { x: { endpoint: 'https://example.org' } } };
        expectStatus(await origin.call('GET', path, { as: people.bob }), seen);
        for (const method of ['POST', 'PUT', 'DELETE']) {
          expectStatus(await origin.call(method, path, { as: people.bob, body }), hidden);
        }
        expectStatus(await origin.call('GET', path), 401);
        expectStatus(await origin.call('POST', path, { body }), 401);
      }
      const put = { ...federated(name, [], {}), script: 'evil' };
      expectStatus(await origin.call('PUT', '/system/services', { as: people.bob, body: put }), hidden);
      expectStatus(await origin.call('DELETE', `/system/services/${name}`, { as: people.bob }), hidden);
      assert.deepEqual(await status(origin, people.alice, name), was);
      assert.equal(a.wire.seen.length, requests, 'and no member heard of it');
    });
  }

  test('cannot create a federation with a refresh token of another user', async () => {
    const { origin, a, people } = registered;
    const token = { environment: { secrets: { refresh_token: 'of alice' } } };
    await create(origin, people.alice, federated('hers', [member(a, 'hers1')], {}, token));
    for (const as of [people.bob, origin.admin]) {
      const body = federated(
        'stolen',
        [member(a, 'stolen1')],
        { [a.id]: { endpoint: a.wire.url, auth_user: 'oscar', auth_password: a.password } },
        token,
      );
      const answer = expectStatus(await origin.call('POST', '/system/services', { as, body }), 403);
      assert.match(answer.text, /already sent by another user/);
    }
    await expectNothing(registered.all, ['stolen', 'stolen1']);
  });

  test('cannot see anything with the token of another service', async () => {
    const { origin, a, people } = registered;
    await create(origin, people.alice, federated('strange', [member(a, 'strange1')], {}));
    await create(origin, people.bob, service('other', 'true'));
    const { token } = await read(origin, people.bob, 'other');
    for (const method of ['GET', 'POST', 'PUT', 'DELETE']) {
      const options = { as: `Bearer ${token}`, ...(method !== 'GET' && { body: { members: [] } }) };
      const answer = await origin.call(method, '/system/federation/strange', options);
      assert.ok([401, 404].includes(answer.status), `${method}: ${answer.status}`);
    }
  });
});

describe('access: the token of a service', () => {
  test('reads members and adds new ones; it changes and removes none', async () => {
    const { origin, a, b, c, people } = registered;
    await create(origin, people.alice, federated('narrow', [member(a, 'narrow1')], {}));
    const as = `Bearer ${(await read(origin, people.alice, 'narrow')).token}`;
    const path = '/system/replicas/narrow';
    expectStatus(await origin.call('GET', path, { as }), 200);

    const added = expectStatus(
      await origin.call('POST', path, { as, body: { replicas: [member(b, 'narrow2')] } }),
      200,
    );
    const { warnings = [] } = added.json() as SeenFederation;
    assert.match(warnings.join(), /oscar-cluster-b\/narrow2/, 'with the token alone nobody can be asked to make it');
    const known = ['oscar-cluster-a/narrow1: ready', 'oscar-cluster-b/narrow2: pending'];
    assert.deepEqual(states(await status(origin, people.alice, 'narrow')), known);

    const again = { replicas: [member(a, 'narrow1', { priority: 50 })] };
    expectStatus(await origin.call('POST', path, { as, body: again }), 200);
    const { members } = await status(origin, people.alice, 'narrow');
    assert.equal(members?.[0]?.priority, 0, 'a member that is there stays as it is');

    const one = member(c, 'narrow3');
    const refused: [string, Record<string, unknown>][] = [
      ['POST', { replicas: [one], clusters: { x: { endpoint: 'https://example.org' } } }],
      ['POST', { replicas: [one], storage_providers: { s3: { x: { access_key: 'a', secret_key: 'b' } } } }],
      ['POST', { replicas: [{ type: 'endpoint', url: 'https://example.org' }] }],
      ['POST', { replicas: [{ ...one, headers: { 'X-Key': 'x' } }] }],
      ['PUT', { replicas: [member(a, 'narrow1', { priority: 1 })] }],
      ['DELETE', { replicas: [member(a, 'narrow1')] }],
    ];
    for (const [method, body] of refused) expectStatus(await origin.call(method, path, { as, body }), 403);
    expectStatus(await origin.call('DELETE', path, { as }), 403);
    assert.deepEqual(states(await status(origin, people.alice, 'narrow')), known);
    assert.ok((await services(a)).includes('narrow1'));

    const body = { replicas: [member(b, 'narrow2')] };
    expectStatus(await origin.call('POST', path, { as: people.alice, body }), 200);
    assert.deepEqual(states(await status(origin, people.alice, 'narrow'))[1], 'oscar-cluster-b/narrow2: ready');
  });

  test('adds no member on a cluster that neither the operator nor the definition names', async () => {
    const { origin, a, people } = named;
    const clusters = { 'oscar-cluster-a': { endpoint: a.wire.url } };
    await create(origin, people.alice, federated('unnamed', [member(a, 'unnamed1')], clusters));
    const as = `Bearer ${(await read(origin, people.alice, 'unnamed')).token}`;
    const body = { members: [member({ id: 'nowhere' }, 'x')] };
    for (const caller of [as, people.alice]) {
      const answer = await origin.call('POST', '/system/federation/unnamed', { as: caller, body });
      assert.match(expectStatus(answer, 400).text, /^cluster "nowhere" is unknown: name it under clusters/);
    }
    assert.deepEqual(states(await status(origin, people.alice, 'unnamed')), ['oscar-cluster-a/unnamed1: ready']);
  });

  test('adds nothing to a service that others may see', async () => {
    const { origin, a, b, people } = registered;
    await create(origin, people.alice, federated('open', [member(a, 'open1')], {}, { visibility: 'public' }));
    const as = `Bearer ${(await read(origin, people.alice, 'open')).token}`;
    expectStatus(await origin.call('GET', '/system/replicas/open', { as }), 200);
    const body = { members: [member(b, 'open2')] };
    expectStatus(await origin.call('POST', '/system/replicas/open', { as, body }), 403);
  });
});

describe('access: the administrator', () => {
  const accounts = ({ a, b, clusters }: Clusters) => ({
    [a.id]: { ...clusters[a.id], auth_user: 'oscar', auth_password: a.password },
    [b.id]: { ...clusters[b.id], auth_user: 'oscar', auth_password: b.password },
  });

  for (const [how, get] of [
    ['registered', () => registered],
    ['named by the definition', () => named],
  ] as const) {
    test(`creates members that are ${how} with their accounts there, and its own password is sent nowhere (F30)`, async () => {
      const { origin, a, b, all } = get();
      const clusters = accounts(get());
      const seen = all.map(({ wire }) => wire.seen.length);
      await create(origin, origin.admin, federated('ruled', [member(a, 'ruled1'), member(b, 'ruled2')], clusters));
      assert.equal((await read(a, a.admin, 'ruled1')).owner, 'cluster_admin');
      assert.deepEqual(
        states(await status(origin, origin.admin, 'ruled')).map((each) => each.split(': ')[1]),
        ['ready', 'ready'],
      );
      const update = federated('ruled', [], clusters, { script: '#!/bin/sh\necho new\n' });
      expectStatus(await origin.call('PUT', '/system/services', { as: origin.admin, body: update }), 204);
      expectStatus(await origin.call('DELETE', '/system/services/ruled', { as: origin.admin }), 204);

      const since = all.flatMap(({ wire }, index) => wire.seen.slice(seen[index]));
      assert.ok(since.length >= 8, 'they were really asked over the wire');
      const text = JSON.stringify(since);
      assert.ok(!text.includes(origin.admin.slice('Basic '.length)) && !text.includes(origin.password));
      for (const { path, body } of since) assert.ok(!body.includes(a.password) && !body.includes(b.password), path);
      for (const { headers } of since.filter(({ method }) => method === 'POST')) {
        assert.ok([a.admin, b.admin].includes(headers.authorization ?? ''));
      }
    });
  }

  test('without an account there is rejected with 403, and the member is not even asked (F30)', async () => {
    const { origin, a, b } = registered;
    const seen = b.wire.seen.length;
    const { [a.id]: one = {} } = accounts(registered);
    const members = [member(a, 'lacking1'), member(b, 'lacking2')];
    const body = federated('lacking', members, { [a.id]: { endpoint: a.wire.url, ...one } });
    const answer = await origin.call('POST', '/system/services', { as: origin.admin, body });
    expectStatus(answer, 403);
    assert.match(answer.text, /a\/lacking1: ok\n/);
    assert.match(answer.text, /b\/lacking2: refused: .*clusters\.oscar-cluster-b\.auth_user and auth_password/);
    assert.equal(b.wire.seen.length, seen);
    await expectNothing(registered.all, ['lacking', 'lacking1', 'lacking2']);
  });

  test('with a wrong password there is rejected with 403', async () => {
    const { origin, a } = registered;
    const clusters = { [a.id]: { endpoint: a.wire.url, auth_user: 'oscar', auth_password: 'wrong' } };
    const body = federated('wrong', [member(a, 'wrong1')], clusters);
    const answer = await origin.call('POST', '/system/services', { as: origin.admin, body });
    expectStatus(answer, 403);
    assert.match(answer.text, /refused/);
    await expectNothing(registered.all, ['wrong', 'wrong1']);
  });

  test('needs no account for a member on this manager under another id', async () => {
    const { origin } = named;
    const clusters = { self: { endpoint: origin.manager.url } };
    await create(origin, origin.admin, federated('circle', [member({ id: 'self' }, 'circle1')], clusters));
    assert.deepEqual(ids(await status(origin, origin.admin, 'circle')), ['self/circle1']);
    assert.ok((await services(origin)).includes('circle1'));
    expectStatus(await origin.call('DELETE', '/system/services/circle', { as: origin.admin }), 204);
    await expectNothing([origin], ['circle', 'circle1']);
  });

  test('does not use accounts of a user at other clusters in place of its own', async () => {
    const { origin, a, people } = registered;
    const seen = a.wire.seen.length;
    const clusters = { [a.id]: { endpoint: a.wire.url, auth_user: 'oscar', auth_password: a.password } };
    await create(origin, people.alice, federated('asself', [member(a, 'asself1')], clusters));
    assert.notEqual((await read(a, people.alice, 'asself1')).owner, 'cluster_admin');
    const headers = a.wire.seen.slice(seen).map(({ headers: { authorization } }) => authorization);
    assert.ok(headers.every((each) => each === undefined || each === people.alice));
    const shown = await read(origin, people.alice, 'asself');
    assert.ok(!JSON.stringify(shown).includes(a.password));
    assert.deepEqual(shown.clusters?.[a.id]?.auth_user, '', 'and they are not even kept');
  });

  test('stores no accounts of a user, in no view and by no path', async () => {
    const { origin, a, people } = registered;
    const as = people.alice;
    const account = { endpoint: a.wire.url, AUTH_USER: 'oscar', auth_password: a.password };
    await create(origin, as, federated('unkept', [member(a, 'unkept1')], { [a.id]: account }));
    const userOf = async (name: string, id: string) => (await read(origin, as, name)).clusters?.[id]?.auth_user;
    assert.equal(await userOf('unkept', a.id), '');
    const put = federated('unkept', [], { [a.id]: account, more: { ...account, endpoint: 'https://example.org' } });
    expectStatus(await origin.call('PUT', '/system/services', { as, body: put }), 204);
    assert.deepEqual([await userOf('unkept', a.id), await userOf('unkept', 'more')], ['', '']);
    const added = {
      members: [],
      clusters: { third: { endpoint: 'https://example.org', auth_user: 'u', auth_password: 'p' } },
    };
    expectStatus(await origin.call('POST', '/system/federation/unkept', { as, body: added }), 200);
    assert.equal(await userOf('unkept', 'third'), '');
    await create(origin, as, { ...service('plainly', 'true'), clusters: { [a.id]: account } });
    assert.equal(await userOf('plainly', a.id), '');

    expectStatus(await origin.call('POST', '/system/federation/unkept', { as: origin.admin, body: added }), 200);
    assert.equal(await userOf('unkept', 'third'), 'u', 'the administrator’s are');
  });
});

test('access: the credentials of an invocation are sent to this manager only (F32)', async () => {
  const { origin, people } = named;
  await using elsewhere = await startWire();
  elsewhere.interfere((_, response) => void response.writeHead(404).end());
  const clusters = { elsewhere: { endpoint: elsewhere.url } };
  const body = federated('harvest', [member({ id: 'elsewhere' }, 'x')], clusters, {
    visibility: 'public',
    federation: { deployment: 'best-effort' },
  });
  await create(origin, people.alice, body);
  elsewhere.interfere((_, response) => void response.writeHead(200).end('{}'));
  for (const path of ['/run/harvest', '/job/harvest']) {
    const answer = await origin.call('POST', path, { as: people.bob, body: 'x' });
    assert.ok(answer.status < 300, `${path}: ${answer.status} ${answer.text}`);
  }
  assert.ok(elsewhere.seen.length > 0, 'its owner’s create was heard');
  assert.ok(!JSON.stringify(elsewhere.seen).includes(people.bob.slice('Bearer '.length)));
});

describe('access: annotations and headers that users may not set (F43)', () => {
  const marks = {
    'oscar.grycap/origin-cluster': 'oscar-cluster',
    'oscar.grycap/origin-service': 'x',
    'oscar.grycap/federation-worker': 'true',
    'oscar.grycap/federation-uid': '5b0c9b0e-6f5c-4d0e-9d8f-2f3a1c7e4b6a',
    'oscar.grycap/federation-revision': '99',
  };

  test('make no worker: the service has its own token, bucket and store, and accepts jobs', async () => {
    const { origin, people } = registered;
    const token = 'f'.repeat(64);
    const providers = {
      minio: { default: { endpoint: 'https://evil.example.org', access_key: 'a', secret_key: 'b' } },
    };
    const body = { ...service('forged', 'echo mine'), annotations: marks, token, storage_providers: providers };
    const answer = await origin.call('POST', '/system/services', { as: people.alice, body });
    expectStatus(answer, 201);
    const made = await read(origin, people.alice, 'forged');
    assert.notEqual(made.token, token);
    assert.deepEqual(made.annotations ?? {}, {});
    assert.ok(!JSON.stringify(made).includes('evil.example.org'));
    assert.equal(await origin.outside.get(people.alice, 'forged/nothing'), undefined, 'its bucket is there');
    expectStatus(await origin.call('POST', '/run/forged', { as: people.alice, body: 'x' }), 200);
  });

  test('an order without credentials, or with those of another user, creates nothing for the owner', async () => {
    const { origin, a, b, people } = registered;
    await create(origin, people.alice, federated('ordered', [member(a, 'ordered1')], {}));
    const order = a.wire.seen.find(({ method, body }) => method === 'POST' && body.includes('ordered1'));
    const header = String(order?.headers['x-oscar-federation']);
    const headers = { 'x-oscar-federation': header };
    const at = { headers, body: order?.body };
    expectStatus(await b.call('POST', '/system/services', at), 401);
    expectStatus(await b.call('POST', '/system/services', { ...at, as: basic('oscar', 'wrong') }), 401);
    assert.ok(!(await services(b)).includes('ordered1'));
    for (const wrong of ['', 'x', Buffer.from('{}').toString('base64url'), Buffer.from('null').toString('base64url')]) {
      const answer = await b.call('POST', '/system/services', {
        as: people.alice,
        headers: { 'x-oscar-federation': wrong },
        body: order?.body,
      });
      expectStatus(answer, 400);
    }
    assert.ok(!(await services(b)).includes('ordered1'));
    // A forged worker belongs to the user who forged it, and harms nobody else.
    expectStatus(await b.call('POST', '/system/services', { ...at, as: people.bob }), 412);
    const { key } = JSON.parse(Buffer.from(header, 'base64url').toString()) as { key: string };
    const probe = `/system/services/ordered1/federation?key=${hash('sha256', key)}`;
    expectStatus(await b.call('GET', probe, { as: people.bob }), 200);
    expectStatus(await b.call('GET', '/system/services/ordered1/federation?key=x', { as: people.bob }), 400);
    expectStatus(await b.call('POST', '/system/services', { ...at, as: people.bob }), 201);
    assert.match((await read(b, people.bob, 'ordered1')).owner, /bob/);
  });
});
