import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  buckets,
  type Clusters,
  create,
  expectNothing,
  expectStatus,
  federated,
  member,
  read,
  type SeenService,
  services,
  startClusters,
  states,
  status,
  type TestCluster,
} from '../support/federation.ts';
import { eventually, keyOf, type SeenJob, service } from '../support/jobs.ts';

let them: Clusters;
before(async () => {
  them = await startClusters();
});
after(() => them[Symbol.asyncDispose]());

const SECRET = 'of-the-one-that-was-there';

/** A service with everything: a bucket with objects, a subscription, a secret, a finished job. */
async function settle(at: TestCluster, name: string) {
  const as = them.people.alice;
  const definition = service(name, 'echo "before: $PASSWORD" >"$TMP_OUTPUT_DIR/out.txt"; echo "before: $PASSWORD"', {
    environment: { variables: { COLOUR: 'green' }, secrets: { PASSWORD: SECRET } },
    labels: { mine: 'yes' },
    annotations: { mine: 'too' },
  });
  await create(at, as, definition);
  await at.outside.put(as, `${name}/kept.txt`, 'kept');
  await at.outside.put(as, `${name}/in/first.txt`, 'first');
  assert.equal((await jobOf(at, name, 'in/first.txt')).state, 'succeeded');
  return { text: await textOf(at, name) };
}

async function textOf(at: TestCluster, name: string): Promise<string> {
  const { alice } = them.people;
  return expectStatus(await at.call('GET', `/system/services/${name}`, { as: alice }), 200).text;
}

/** The service is the same byte for byte, and still works. */
async function expectAsBefore(at: TestCluster, name: string, was: { text: string }): Promise<void> {
  const as = them.people.alice;
  assert.equal(await textOf(at, name), was.text);
  assert.equal(await at.outside.get(as, `${name}/kept.txt`), 'kept');
  const ran = expectStatus(await at.call('POST', `/run/${name}`, { as: tokenIn(was.text), body: 'x' }), 200);
  assert.match(ran.text + Buffer.from(ran.text, 'base64').toString(), new RegExp(`before: ${SECRET}`));
  await at.outside.put(as, `${name}/in/again.txt`, 'again');
  assert.equal((await jobOf(at, name, 'in/again.txt')).state, 'succeeded');
  assert.match((await at.outside.get(as, `${name}/out/out.txt`)) ?? '', new RegExp(`before: ${SECRET}`));
  assert.deepEqual((await status(at, as, name)).members, null);
  const put = JSON.parse(was.text) as Record<string, unknown>;
  expectStatus(await at.call('PUT', '/system/services', { as, body: { ...put, cpu: '0.3' } }), 204);
}

/** The job that an upload started, in its final state. */
async function jobOf(at: TestCluster, name: string, key: string): Promise<SeenJob> {
  const as = them.people.alice;
  const { id } = await eventually(async () => {
    const job = (await at.outside.jobs(as, name)).find((each) => keyOf(each) === key);
    assert.ok(job, `no job of ${key}`);
    return job;
  });
  return at.outside.ended(name, id, as);
}

const tokenIn = (text: string) => `Bearer ${(JSON.parse(text) as SeenService).token}`;

/** Alice's service at b, adopted by a federation of hers, and changed by it once. */
async function adopted(name: string) {
  const { origin, a, b, people } = them;
  const worker = `${name}2`;
  const was = await settle(b, worker);
  const members = [member(a, `${name}1`), member(b, worker)];
  await create(origin, people.alice, federated(name, members, them.clusters));
  const body = federated(name, members, them.clusters, { script: '#!/bin/sh\necho federated\n' });
  expectStatus(await origin.call('PUT', '/system/services', { as: people.alice, body }), 204);
  return { worker, was, members };
}

test('adoption: a service of the same owner becomes a worker with its own token, and its bucket is not touched', async () => {
  const { origin, b, people } = them;
  const as = people.alice;
  const { worker, was } = await adopted('taken');
  const now = await read(b, as, worker);
  assert.match(now.script, /federated/);
  assert.deepEqual(now.input, (await read(origin, as, 'taken')).input);
  assert.equal(`Bearer ${now.token}`, tokenIn(was.text), 'its token is the same');
  assert.equal(await b.outside.get(as, `${worker}/kept.txt`), 'kept');
  assert.ok(!(await buckets(b)).includes('taken'));
  await b.outside.put(as, `${worker}/in/meanwhile.txt`, 'x');
  const refused = await b.call('PUT', '/system/services', { as, body: JSON.parse(was.text) });
  assert.equal(refused.status, 409, 'its definition is the coordinator’s (F45)');
  assert.match(refused.text, /"taken" at http/);
  const jobs = (await b.outside.jobs(as, worker)).map(keyOf);
  assert.ok(!jobs.includes('in/meanwhile.txt'), 'events of the old paths are no longer its own');
});

describe('adoption: an adopted service is restored after', () => {
  test('its removal from the federation (F25)', async () => {
    const { origin, b, people } = them;
    const { worker, was } = await adopted('removal');
    const body = { members: [member(b, worker)] };
    expectStatus(await origin.call('DELETE', '/system/federation/removal', { as: people.alice, body }), 200);
    await expectAsBefore(b, worker, was);
  });

  test('a removal with delete: true (F25)', async () => {
    const { origin, b, people } = them;
    const { worker, was } = await adopted('deletion');
    const body = { members: [member(b, worker)], delete: true };
    expectStatus(await origin.call('DELETE', '/system/federation/deletion', { as: people.alice, body }), 200);
    await expectAsBefore(b, worker, was);
  });

  test('a PUT whose members do not name it', async () => {
    const { origin, b, people } = them;
    const { worker, was, members } = await adopted('unnamed');
    const body = federated('unnamed', members.slice(0, 1), them.clusters);
    expectStatus(await origin.call('PUT', '/system/services', { as: people.alice, body }), 204);
    await expectAsBefore(b, worker, was);
  });

  test('the removal of the coordinator (F24)', async () => {
    const { origin, a, b, people } = them;
    const { worker, was } = await adopted('ended');
    expectStatus(await origin.call('DELETE', '/system/services/ended', { as: people.alice }), 204);
    assert.ok(!(await services(a)).includes('ended1'), 'what was made for it is gone');
    await expectAsBefore(b, worker, was);
  });

  test('its own delete at the member (F46)', async () => {
    const { origin, b, people } = them;
    const { worker, was } = await adopted('owndelete');
    expectStatus(await b.call('DELETE', `/system/services/${worker}`, { as: people.alice }), 204);
    assert.deepEqual(states(await status(origin, people.alice, 'owndelete')), [
      'oscar-cluster-a/owndelete1: ready',
      `oscar-cluster-b/${worker}: removed-by-owner`,
    ]);
    await expectAsBefore(b, worker, was);
  });

  test('a create that failed at another member (F22)', async () => {
    const { origin, a, b, c, people } = them;
    const was = await settle(b, 'rollback2');
    const members = [member(a, 'rollback1'), member(b, 'rollback2'), member(c, 'rollback3')];
    c.wire.interfere(async ({ method }, response, passOn) => {
      if (method === 'POST') response.writeHead(500).end();
      else await passOn();
    });
    try {
      const body = federated('rollback', members, them.clusters);
      expectStatus(await origin.call('POST', '/system/services', { as: people.alice, body }), 424);
    } finally {
      c.wire.interfere();
    }
    await expectNothing([origin, a, c], ['rollback', 'rollback1', 'rollback3']);
    await expectAsBefore(b, 'rollback2', was);
  });

  test('an adoption whose answer was lost (F22)', async () => {
    const { origin, a, b, people } = them;
    const was = await settle(b, 'lost2');
    b.wire.interfere(async ({ method }, response, passOn) => {
      if (method === 'PUT') response.destroy();
      await passOn();
    });
    try {
      const body = federated('lost', [member(a, 'lost1'), member(b, 'lost2')], them.clusters);
      expectStatus(await origin.call('POST', '/system/services', { as: people.alice, body }), 504);
    } finally {
      b.wire.interfere();
    }
    await expectNothing([origin, a], ['lost', 'lost1']);
    await expectAsBefore(b, 'lost2', was);
  });
});

test('adoption: the federation continues without a member that its owner deleted, also a restored one (F46)', async () => {
  const { origin, a, b, people } = them;
  const { worker, was } = await adopted('goeson');
  expectStatus(await b.call('DELETE', `/system/services/${worker}`, { as: people.alice }), 204);
  const body = federated('goeson', [], them.clusters, { script: '#!/bin/sh\necho without\n' });
  const answer = await origin.call('PUT', '/system/services', { as: people.alice, body });
  assert.ok([200, 204].includes(answer.status), answer.text);
  assert.match((await read(a, people.alice, 'goeson1')).script, /without/);
  assert.deepEqual(states(await status(origin, people.alice, 'goeson')), [
    'oscar-cluster-a/goeson1: ready',
    `oscar-cluster-b/${worker}: removed-by-owner`,
  ]);
  assert.equal(await textOf(b, worker), was.text, 'and it is not had again behind its owner’s back');
  expectStatus(await b.call('DELETE', `/system/services/${worker}`, { as: people.alice }), 204);
  assert.ok(!(await services(b)).includes(worker), 'what was there before is deleted when that is asked for');
});

describe('departure: the coordinator of a worker that its owner deletes', () => {
  test('is told before the worker is deleted', async () => {
    const { origin, a, b, people } = them;
    const as = people.alice;
    await create(origin, as, federated('told', [member(a, 'told1'), member(b, 'told2')], them.clusters));
    expectStatus(await b.call('DELETE', '/system/services/told2', { as }), 204);
    assert.deepEqual(states(await status(origin, as, 'told')), [
      'oscar-cluster-a/told1: ready',
      'oscar-cluster-b/told2: removed-by-owner',
    ]);
    const again = { members: [member(b, 'told2')] };
    expectStatus(await origin.call('POST', '/system/federation/told', { as, body: again }), 200);
    assert.deepEqual(states(await status(origin, as, 'told')), [
      'oscar-cluster-a/told1: ready',
      'oscar-cluster-b/told2: ready',
    ]);
  });

  test('is told in the same way if it is the same manager', async () => {
    const { origin, people } = them;
    const as = people.alice;
    await create(origin, as, federated('inside', [member(origin, 'inside1')], them.clusters));
    expectStatus(await origin.call('DELETE', '/system/services/inside1', { as }), 204);
    assert.deepEqual(states(await status(origin, as, 'inside')), ['oscar-cluster/inside1: removed-by-owner']);
  });

  test('does not block the delete if it does not answer, and finds out later', async () => {
    const { origin, a, people } = them;
    const as = people.alice;
    await create(origin, as, federated('silent', [member(a, 'silent1')], them.clusters));
    const { promise: over, resolve: end } = Promise.withResolvers<void>();
    origin.wire.interfere(async (_request, response) => {
      await over;
      response.destroy();
    });
    try {
      expectStatus(await a.call('DELETE', '/system/services/silent1', { as }), 204);
    } finally {
      end();
      origin.wire.interfere();
    }
    assert.ok(!(await services(a)).includes('silent1'));
    assert.deepEqual(states(await status(origin, as, 'silent')), ['oscar-cluster-a/silent1: ready']);
    const body = federated('silent', [], them.clusters, { script: '#!/bin/sh\necho later\n' });
    expectStatus(await origin.call('PUT', '/system/services', { as, body }), 200);
    assert.deepEqual(states(await status(origin, as, 'silent')), ['oscar-cluster-a/silent1: removed-by-owner']);
    assert.ok(!(await services(a)).includes('silent1'));
  });
});

test('departure: deleting a worker at its member keeps the data of the origin, and unrelated data (F46)', async () => {
  const { origin, a, people } = them;
  const as = people.alice;
  await create(origin, as, federated('data', [member(a, 'data1')], them.clusters));
  await origin.outside.put(as, 'data/kept.txt', 'kept');
  await create(a, as, service('data', 'true'));
  await a.outside.put(as, 'data/there.txt', 'there');
  expectStatus(await a.call('DELETE', '/system/services/data1', { as }), 204);
  assert.equal(await origin.outside.get(as, 'data/kept.txt'), 'kept');
  assert.equal(await a.outside.get(as, 'data/there.txt'), 'there', 'a bucket of that name there is another one');
});

test('adoption: a service that was changed after the probe is not adopted (F49)', async () => {
  const { origin, a, b, people } = them;
  const as = people.alice;
  const was = await settle(b, 'raced2');
  const changed = { ...(JSON.parse(was.text) as Record<string, unknown>), cpu: '0.7' };
  b.wire.interfere(async ({ method }, _, passOn) => {
    if (method === 'PUT') expectStatus(await b.call('PUT', '/system/services', { as, body: changed }), 204);
    await passOn();
  });
  try {
    const body = federated('raced', [member(a, 'raced1'), member(b, 'raced2')], them.clusters);
    expectStatus(await origin.call('POST', '/system/services', { as, body }), 424);
  } finally {
    b.wire.interfere();
  }
  await expectNothing([origin, a], ['raced', 'raced1']);
  assert.match(await textOf(b, 'raced2'), /"cpu":"0.7"/);
});
