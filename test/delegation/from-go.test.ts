import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { copying, delegating, endedWell, inState, offersTo, placeOf, startDelegation } from '../support/delegation.ts';
import { type Clusters, expectStatus, member, type TestCluster } from '../support/federation.ts';
import { ALICE } from '../support/issuer-users.ts';
import { Meeting, service } from '../support/jobs.ts';
import type { Answer } from '../support/manager.ts';

let them: Clusters;
const meeting = new Meeting();
before(async () => {
  them = await startDelegation();
});
after(async () => {
  meeting[Symbol.dispose]();
  await them[Symbol.asyncDispose]();
});

/** A job id as Go managers create them. */
const newId = (name: string) => `${name}-${randomUUID()}`;

const WRAPPED = { storage_provider: 'minio.default', event: '{"a":1}' };

/** Delegates a job as a Go manager does (docs/go-manager.md#federation-and-delegation). */
function delegate(at: TestCluster, as: string, name: string, id: string, body: unknown = WRAPPED): Promise<Answer> {
  const headers = { 'x-delegated-job-id': id, 'x-delegated-from': 'go-cluster' };
  return at.call('POST', `/job/${name}`, { as, body, headers });
}

/** The definition of a worker as a Go manager sends it (docs/go-manager.md#federation-and-delegation), shortened. */
const worker = (name: string, script: string, more: Record<string, unknown> = {}) =>
  service(name, script, {
    cluster_id: them.a.id,
    annotations: {
      'oscar.grycap/origin-cluster': 'go-cluster',
      'oscar.grycap/origin-service': 'cow',
      'oscar.grycap/federation-worker': 'true',
    },
    federation: { group_id: 'cow', topology: 'star', delegation: 'static', rescheduler_threshold: 30 },
    environment: { secrets: { refresh_token: '' } },
    ...more,
  });

describe('from Go: a job that a Go manager delegates to this manager', () => {
  test('from Go: the job keeps its id and runs once, however often it is sent (F13)', async () => {
    const { a, people } = them;
    await a.outside.create(people.alice, worker('calf', `echo "I am $JOB_UUID"; ${copying()}`));
    const id = newId('cow');
    for (let n = 0; n < 3; n++) {
      const { status, text, headers } = await delegate(a, people.alice, 'calf', id);
      assert.deepEqual([status, text, headers.get('x-oscar-job-id')], [201, '', id]);
    }
    const job = await endedWell(a, people.alice, 'calf', id);
    assert.equal(job.invoker, ALICE.sub);
    assert.equal((await a.outside.jobs(people.alice, 'calf')).length, 1);
    const log = expectStatus(await a.call('GET', `/system/logs/calf/${id}`, { as: people.alice }), 200);
    assert.match(log.text, new RegExp(`^I am ${id}$`, 'm'));
    const { text } = expectStatus(await a.call('GET', '/system/logs/calf', { as: people.alice }), 200);
    assert.deepEqual(Object.keys((JSON.parse(text) as { jobs: object }).jobs), [id]);
    // Also after the end: the Go manager may have been paused.
    expectStatus(await delegate(a, people.alice, 'calf', id), 201);
    assert.equal((await a.outside.jobs(people.alice, 'calf')).length, 1);
  });

  test('from Go: a worker of a mesh is created and updated as a plain service, without its list of members', async () => {
    const { a, b, people } = them;
    // A Go coordinator lists itself first, then all other members (docs/go-manager.md#federation-and-delegation).
    const members = [
      { type: 'oscar', cluster_id: 'go-cluster', service_name: 'cow', priority: 0 },
      member(b, 'calf-b'),
    ];
    const federation = { group_id: 'cow', topology: 'mesh', delegation: 'static', rescheduler_threshold: 30, members };
    const clusters = { 'go-cluster': { endpoint: 'https://oscar.go.example.org' }, [b.id]: { endpoint: b.wire.url } };
    const more = { federation, clusters, environment: { secrets: { refresh_token: 'a token of Alice' } } };
    await a.outside.create(people.alice, worker('calf-mesh', copying(), more));
    const read = async () =>
      expectStatus(await a.call('GET', '/system/services/calf-mesh', { as: people.alice }), 200).json() as {
        readonly image: string;
        readonly federation: { readonly topology: string; readonly members?: unknown };
      };
    assert.deepEqual((await read()).federation.members, undefined);
    const changed = { ...worker('calf-mesh', copying(), more), image: 'busybox:2' };
    expectStatus(await a.call('PUT', '/system/services', { as: people.alice, body: changed }), 204);
    assert.equal((await read()).image, 'busybox:2');
    expectStatus(await b.call('GET', '/system/services/calf-b', { as: people.alice }), 404);

    const id = newId('cow');
    expectStatus(await delegate(a, people.alice, 'calf-mesh', id), 201);
    assert.equal(placeOf(await endedWell(a, people.alice, 'calf-mesh', id)), a.id);
    expectStatus(await a.call('DELETE', '/system/services/calf-mesh', { as: people.alice }), 204);
  });

  test('from Go: with the token of the service, the job has the rights of the owner', async () => {
    const { a, people } = them;
    const token = await a.outside.create(people.alice, worker('tokened', copying()));
    const id = newId('cow');
    expectStatus(await delegate(a, token, 'tokened', id), 201);
    expectStatus(await delegate(a, token, 'tokened', id), 201);
    assert.equal((await endedWell(a, people.alice, 'tokened', id)).invoker, undefined);
    expectStatus(await delegate(a, a.admin, 'tokened', newId('cow')), 401);
  });

  test('from Go: an id that is in use is rejected for another user and for another event', async () => {
    const { a, people } = them;
    await a.outside.create(people.alice, worker('open', 'true', { visibility: 'public' }));
    const id = newId('cow');
    expectStatus(await delegate(a, people.alice, 'open', id), 201);
    for (const call of [
      () => delegate(a, people.bob, 'open', id),
      () => delegate(a, people.alice, 'open', id, { ...WRAPPED, event: '{"a":2}' }),
    ]) {
      const answer = expectStatus(await call(), 409);
      assert.match(answer.text, /^there is another job ".*" of "open" already: give each job an id of its own$/);
      assert.equal(answer.headers.get('x-oscar-job-id'), null);
    }
    expectStatus(await a.call('GET', `/system/jobs/open/${id}`, { as: people.bob }), 404);
    await endedWell(a, people.alice, 'open', id);
    for (const bad of ['Upper', 'a/b', 'a.b', '-a', 'x'.repeat(64), 'cow-6f1c0d9e-7a52-5c36-8f0e-0c7c2a3a9b11']) {
      assert.match(expectStatus(await delegate(a, people.alice, 'open', bad), 400).text, /^X-Delegated-Job-ID: /);
    }
    assert.equal((await a.outside.jobs(people.alice, 'open')).length, 1);
  });

  test('from Go: a job with the id of a job of another user does not affect that job', async () => {
    const { a, people } = them;
    const script = `echo secret of alice; ${meeting.say('begun', 'yes')}; ${meeting.wait('go')}`;
    const victim = await a.outside.create(people.alice, service('victim', script));
    const id = await a.outside.submit(victim, 'victim', 'x');
    await meeting.heard('begun');

    await a.outside.create(people.bob, service('thief', 'echo nothing'));
    expectStatus(await delegate(a, people.bob, 'thief', id), 201);
    await endedWell(a, people.bob, 'thief', id);
    const log = await a.call('GET', `/system/logs/thief/${id}`, { as: people.bob });
    assert.match(expectStatus(log, 200).text, /^nothing$/m);
    assert.doesNotMatch(log.text, /alice/);
    expectStatus(await a.call('DELETE', `/system/logs/thief/${id}`, { as: people.bob }), 204);

    await a.outside.running(people.alice, 'victim', id);
    meeting.letGo('go');
    await endedWell(a, people.alice, 'victim', id);
    const kept = await a.call('GET', `/system/logs/victim/${id}`, { as: a.admin });
    assert.match(expectStatus(kept, 200).text, /^secret of alice$/m);
  });

  test('from Go: the job is not delegated again, even with delegate_when: always (F12)', async () => {
    const { origin, a, people } = them;
    await delegating(them, 'herd', [member(a, 'herd-a')], { script: copying(), federation: { topology: 'mesh' } });
    const id = newId('cow');
    expectStatus(await delegate(origin, people.alice, 'herd', id), 201);
    assert.equal(placeOf(await endedWell(origin, people.alice, 'herd', id)), origin.id);
    assert.deepEqual(offersTo(a, 'herd-a'), []);
  });

  test('from Go: a job that comes back is rejected, by a worker and by the cluster that delegated it', async () => {
    const { origin, a, people } = them;
    const script = `${meeting.wait('circle')}; ${copying()}`;
    await delegating(them, 'circle', [member(a, 'circle-a')], { script, federation: { topology: 'mesh' } });
    const id = await origin.outside.submit(people.alice, 'circle', WRAPPED);
    await inState(origin, people.alice, 'circle', id, 'delegated');
    const heard = origin.wire.seen.length;
    const atWorker = expectStatus(await delegate(a, people.alice, 'circle-a', id), 409);
    assert.match(atWorker.text, /are submitted to its coordinator: invoke "circle" at http/);
    assert.deepEqual(
      origin.wire.seen.slice(heard).filter(({ path }) => /^\/system\/federation\/circle\/jobs$/.test(path)),
      [],
    );
    expectStatus(await delegate(origin, people.alice, 'circle', id), 409);
    meeting.letGo('circle');
    assert.equal(placeOf(await endedWell(origin, people.alice, 'circle', id)), a.id);
    assert.equal((await origin.outside.jobs(people.alice, 'circle')).length, 1);
  });
});
