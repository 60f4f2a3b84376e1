import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  type Clusters,
  create,
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
  them = await startClusters({ registered: true });
});
after(() => them[Symbol.asyncDispose]());

/** A federation of alice with a worker at a. Returns the requests that the coordinator's manager received since. */
async function federation(name: string, more: Record<string, unknown> = {}) {
  const { origin, a, people } = them;
  await create(origin, people.alice, federated(name, [member(a, `${name}1`)], {}, more));
  const seen = origin.wire.seen.length;
  return { name, worker: `${name}1`, asked: () => origin.wire.seen.slice(seen) };
}

describe('forward: a change of members that is sent to a worker', () => {
  test('is made at the coordinator, in both spellings, and reaches the worker too (F42, F45)', async () => {
    const { origin, a, b, people } = them;
    const as = people.alice;
    const { worker } = await federation('middle');
    const added = expectStatus(
      await a.call('POST', `/system/federation/${worker}`, { as, body: { members: [member(b, 'middle2')] } }),
      200,
    ).json() as SeenFederation;
    assert.deepEqual(ids(added), ['oscar-cluster-a/middle1', 'oscar-cluster-b/middle2']);
    assert.equal(added.topology, 'mesh');
    assert.ok((await services(b)).includes('middle2'));

    const put = { update: [member(b, 'middle2', { priority: 7 })] };
    const changed = expectStatus(await a.call('PUT', `/system/replicas/${worker}`, { as, body: put }), 200).json();
    assert.equal((changed as { replicas: { priority: number }[] }).replicas[1]?.priority, 7);

    assert.deepEqual(ids((await read(a, as, worker)).federation ?? {}), [
      'oscar-cluster/middle',
      'oscar-cluster-b/middle2',
    ]);
    const coordinator = await read(origin, as, 'middle');
    assert.equal(coordinator.annotations?.['oscar.grycap/federation-worker'], undefined);
    assert.deepEqual(states(await status(origin, as, 'middle')), [
      'oscar-cluster-a/middle1: ready',
      'oscar-cluster-b/middle2: ready',
    ]);

    // A worker can also forward its own removal: the coordinator then removes it.
    const removed = await a.call('DELETE', `/system/federation/${worker}`, { as });
    assert.equal((expectStatus(removed, 200).json() as SeenFederation).members, null);
    assert.ok(!(await services(a)).includes(worker) && !(await services(b)).includes('middle2'));
  });

  test('names members that do not have it yet, with messages of this manager', async () => {
    const { a, people } = them;
    const { worker } = await federation('waiting');
    const body = {
      members: [member({ id: 'nowhere' }, 'x')],
      clusters: { nowhere: { endpoint: 'http://127.0.0.1:1' } },
    };
    const answer = await a.call('POST', `/system/federation/${worker}`, { as: people.alice, body });
    const { warnings } = expectStatus(answer, 200).json() as SeenFederation;
    assert.deepEqual(warnings, ['nowhere/x: does not have the change yet: see the status at the coordinator']);
  });

  test('of a user who may not change the service is not forwarded', async () => {
    const { a, people } = them;
    for (const [visibility, expected] of [
      ['private', 404],
      ['public', 403],
    ] as const) {
      const { worker, asked } = await federation(`not${visibility}`, { visibility });
      for (const method of ['POST', 'PUT', 'DELETE']) {
        const answer = await a.call(method, `/system/federation/${worker}`, { as: people.bob, body: { members: [] } });
        expectStatus(answer, expected);
      }
      expectStatus(await a.call('POST', `/system/federation/${worker}`, { body: { members: [] } }), 401);
      assert.deepEqual(asked(), []);
    }
  });

  test('of the administrator there, or with the token of the worker, is 409 and names the coordinator (F30)', async () => {
    const { a, origin, people } = them;
    const { worker, asked } = await federation('elsewhere');
    const { token } = await read(a, people.alice, worker);
    for (const as of [a.admin, `Bearer ${token}`]) {
      const answer = await a.call('POST', `/system/federation/${worker}`, { as, body: { members: [] } });
      expectStatus(answer, 409);
      assert.ok(answer.text.includes(`"elsewhere" at ${origin.wire.url}`), answer.text);
    }
    assert.deepEqual(asked(), []);
  });

  test('that is invalid is rejected before the coordinator is asked', async () => {
    const { a, people } = them;
    const { worker, asked } = await federation('senseless');
    const body = { members: [member(a, 'x'), member(a, 'x')] };
    const answer = await a.call('POST', `/system/federation/${worker}`, { as: people.alice, body });
    assert.match(expectStatus(answer, 400).text, /is listed twice/);
    assert.deepEqual(asked(), []);
  });

  test('while the coordinator is unreachable is 503, and changes nothing', async () => {
    const { a, b, origin, people } = them;
    const as = people.alice;
    const { worker } = await federation('silent');
    await origin.wire.cut();
    try {
      const body = { members: [member(b, 'silent2')] };
      const answer = expectStatus(await a.call('POST', `/system/federation/${worker}`, { as, body }), 503);
      assert.match(answer.headers.get('retry-after') ?? '', /^\d+$/);
      assert.ok(answer.text.includes(`"silent" at ${origin.wire.url}`), answer.text);
    } finally {
      await origin.wire.mend();
    }
    assert.deepEqual(states(await status(origin, as, 'silent')), ['oscar-cluster-a/silent1: ready']);
  });

  test('is answered with messages of this manager only, whatever the other side sends (F40)', async () => {
    const { a, origin, people } = them;
    const { worker } = await federation('hushed');
    const cases: [number, string, number][] = [
      [200, '{"topology":"hush hush","members":[],"pending":[]}', 503],
      [200, '<p>hush</p>', 503],
      [400, 'hush', 400],
      [403, 'hush', 403],
      [404, 'hush', 403],
      [409, 'hush', 409],
      [410, 'hush', 410],
      [418, 'hush', 424],
      [500, 'hush', 503],
    ];
    for (const [answered, text, expected] of cases) {
      origin.wire.interfere((_, response) => {
        response.writeHead(answered, { 'content-type': 'application/json' }).end(text);
      });
      const answer = await a.call('POST', `/system/federation/${worker}`, { as: people.alice, body: { members: [] } });
      origin.wire.interfere();
      expectStatus(answer, expected);
      assert.doesNotMatch(answer.text, /hush(?!ed)/, `to ${answered}`);
    }
  });
});

describe('forward: the coordinator', () => {
  /** A change as the worker forwards it. */
  async function passed(name: string) {
    const { a, people } = them;
    const { worker, asked } = await federation(name);
    const body = {
      members: [member({ id: 'nowhere' }, 'x')],
      clusters: { nowhere: { endpoint: 'http://127.0.0.1:1' } },
    };
    expectStatus(await a.call('POST', `/system/federation/${worker}`, { as: people.alice, body }), 200);
    const request = asked().find(({ path }) => path.endsWith('/changes'));
    assert.ok(request);
    return request;
  }

  test('rejects the same change the second time', async () => {
    const { origin } = them;
    const { path, body, headers } = await passed('twice');
    const again = {
      as: String(headers.authorization),
      body,
      headers: {
        'x-oscar-member': String(headers['x-oscar-member']),
        'content-digest': String(headers['content-digest']),
      },
    };
    expectStatus(await origin.call('POST', path, again), 401);
  });

  test('authenticates the user itself, and does not trust the worker', async () => {
    const { origin, people, a } = them;
    const { path, body } = await passed('believed');
    // The worker has the key and can sign anything, but it cannot forge the token of a user.
    const sent: { as?: string; expected: number }[] = [
      { expected: 401 },
      { as: people.bob, expected: 404 },
      { as: origin.admin, expected: 401 },
      { as: a.admin, expected: 401 },
      { as: `Bearer ${(await read(a, people.alice, 'believed1')).token}`, expected: 401 },
    ];
    for (const { as, expected } of sent) {
      // The request that the worker would send with this credential: the test replaces the one that its manager uses.
      const answer = await resigned(path, body, as);
      assert.equal(answer, expected, as);
    }
    const known = states(await status(origin, people.alice, 'believed'));
    assert.deepEqual(known, ['oscar-cluster-a/believed1: ready', 'nowhere/x: pending']);
  });

  /** Lets the worker forward a change, and replaces the credential on the way. Returns the coordinator's status. */
  async function resigned(path: string, _body: string, as: string | undefined): Promise<number> {
    const { a, origin, people } = them;
    const answered = Promise.withResolvers<number>();
    origin.wire.interfere(async (seen, response) => {
      const headers = {
        'x-oscar-member': String(seen.headers['x-oscar-member']),
        'content-digest': String(seen.headers['content-digest']),
      };
      const answer = await origin.call(seen.method, seen.path, { body: seen.body, headers, ...(as && { as }) });
      answered.resolve(answer.status);
      response.writeHead(409).end();
    });
    const name = path.split('/')[3] ?? '';
    await a.call('DELETE', `/system/federation/${name}1`, { as: people.alice });
    origin.wire.interfere();
    return answered.promise;
  }

  test('answers that a removed federation is gone', async () => {
    const { origin, a, people } = them;
    const { worker } = await federation('over');
    await a.wire.cut();
    try {
      expectStatus(await origin.call('DELETE', '/system/services/over', { as: people.alice }), 204);
      const answer = await a.call('POST', `/system/federation/${worker}`, { as: people.alice, body: { members: [] } });
      expectStatus(answer, 410);
    } finally {
      await a.wire.mend();
    }
  });
});

test('forward: a worker on the coordinator’s own manager changes it without a connection', async () => {
  const { origin, b, people } = them;
  const as = people.alice;
  const own = member({ id: 'self' }, 'inner1');
  const clusters = { self: { endpoint: origin.manager.url } };
  await create(origin, as, federated('inner', [own], clusters));
  const seen = origin.wire.seen.length;
  const body = { members: [member(b, 'inner2')] };
  const answer = expectStatus(await origin.call('POST', '/system/federation/inner1', { as, body }), 200);
  assert.deepEqual(ids(answer.json() as SeenFederation), ['self/inner1', 'oscar-cluster-b/inner2']);
  assert.equal(origin.wire.seen.length, seen);
});

test('forward: PUT of a worker is 409, names its coordinator, and says when it can be taken over (F45)', async () => {
  const { origin, a, people } = them;
  const as = people.alice;
  const { worker } = await federation('steady');
  const body = federated(worker, [], {}, { script: '#!/bin/sh\necho evil\n' });
  const put = expectStatus(await a.call('PUT', '/system/services', { as, body }), 409);
  assert.ok(put.text.includes(`"steady" at ${origin.wire.url}`), put.text);
  assert.match(put.text, /a PUT after 20\d\d-\d\d-\d\dT.* makes it a plain service/);
  assert.doesNotMatch((await read(a, as, worker)).script, /evil/);
});
