import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { copying, delegating, endedWell, offersTo, placeOf, startDelegation, storyOf } from '../support/delegation.ts';
import { type Clusters, expectStatus, member, read, type TestCluster } from '../support/federation.ts';
import { ALICE } from '../support/issuer-users.ts';
import { eventually, Meeting, service } from '../support/jobs.ts';

let them: Clusters;
const meeting = new Meeting();
before(async () => {
  them = await startDelegation({ own: { 'oscar-cluster-b': { OSCAR_LOCAL_CPU: '1' } } });
});
after(async () => {
  meeting[Symbol.dispose]();
  await them[Symbol.asyncDispose]();
});

/** Sends an event to a worker, and resolves to the id of the job at the coordinator. */
async function enter(at: TestCluster, as: string, worker: string, body: unknown): Promise<string> {
  const answer = expectStatus(await at.call('POST', `/job/${worker}`, { as, body }), 201);
  const id = answer.headers.get('x-oscar-job-id') ?? '';
  const coordinator = worker.replace(/-[ab]$/, '');
  assert.equal(answer.headers.get('location'), `${them.origin.wire.url}/system/jobs/${coordinator}/${id}`);
  return id;
}

const pair = (name: string) => [member(them.a, `${name}-a`), member(them.b, `${name}-b`)];

describe('enter: a job that is sent to a worker', () => {
  test('enter: the job has its record at the coordinator, and in a star runs at that worker, whatever the policy', async () => {
    const { origin, a, b, people } = them;
    await delegating(them, 'star', pair('star'), { script: copying(), federation: { self: { priority: 0 } } });
    for (const [at, as] of [
      [b, people.alice],
      [a, people.alice],
      [b, `Bearer ${(await read(b, people.alice, 'star-b')).token}`],
    ] as const) {
      const id = await enter(at, as, at === a ? 'star-a' : 'star-b', `at ${at.id}`);
      const job = await endedWell(origin, people.alice, 'star', id);
      assert.equal(placeOf(job), at.id, storyOf(job));
      assert.equal(await origin.outside.get(people.alice, `star/out/event-file-${id}`), `at ${at.id}`);
      assert.equal(job.invoker, as === people.alice ? ALICE.sub : undefined);
    }
  });

  test('enter: in a mesh the origin asks that worker first, then the others', async () => {
    const { origin, a, b, people } = them;
    await delegating(them, 'mesh', pair('mesh'), {
      script: copying(),
      federation: { topology: 'mesh', self: { priority: 50 } },
    });
    const first = await enter(b, people.alice, 'mesh-b', 'x');
    assert.equal(placeOf(await endedWell(origin, people.alice, 'mesh', first)), b.id);
    b.wire.interfere((seen, response, passOn) =>
      seen.path === '/job/mesh-b' ? void response.writeHead(429).end() : passOn(),
    );
    try {
      const second = await enter(b, people.alice, 'mesh-b', 'y');
      const job = await endedWell(origin, people.alice, 'mesh', second);
      assert.equal(placeOf(job), a.id, storyOf(job));
      assert.match(JSON.stringify(job.decisions), /oscar-cluster-b.*has no room/);
    } finally {
      b.wire.interfere();
    }
  });

  test('enter: in a star the job waits for that worker, even if others have room', async () => {
    const { origin, b, people } = them;
    const hog = service('hog', meeting.wait('hog'), { cpu: '1', memory: '16Mi', input: [], output: [] });
    const hogs = await b.outside.create(b.admin, hog);
    await b.outside.running(b.admin, 'hog', await b.outside.submit(hogs, 'hog', 'x'));
    await delegating(them, 'patient', pair('patient'), { script: copying() });
    const id = await enter(b, people.alice, 'patient-b', 'x');
    await eventually(async () => {
      const job = await origin.outside.job(people.alice, 'patient', id);
      assert.equal(job.phase, 'Running', storyOf(job));
    });
    assert.deepEqual(offersTo(them.a, 'patient-a'), []);
    meeting.letGo('hog');
    const job = await endedWell(origin, people.alice, 'patient', id);
    assert.equal(placeOf(job), b.id);
  });

  test('enter: 503 and no job while the coordinator is unreachable; a later try succeeds', async () => {
    const { origin, a, people } = them;
    await delegating(them, 'orphan', pair('orphan'), { script: copying() });
    await origin.wire.cut();
    try {
      const answer = await a.call('POST', '/job/orphan-a', { as: people.alice, body: 'x' });
      expectStatus(answer, 503);
      assert.match(answer.text, /oscar-cluster/);
      assert.ok(!answer.headers.has('x-oscar-job-id'));
    } finally {
      await origin.wire.mend();
    }
    assert.deepEqual(await a.outside.jobs(people.alice, 'orphan-a'), []);
    assert.deepEqual(await origin.outside.jobs(people.alice, 'orphan'), []);
    const id = await eventually(() => enter(a, people.alice, 'orphan-a', 'x'));
    await endedWell(origin, people.alice, 'orphan', id);
    assert.equal((await origin.outside.jobs(people.alice, 'orphan')).length, 1);
  });

  test('enter: a caller without access is rejected by the worker, and the coordinator gets no request', async () => {
    const { origin, a, people } = them;
    await delegating(them, 'closed', pair('closed'), { script: 'true' });
    const other = await origin.outside.create(people.bob, service('bobs', 'true'));
    const heard = origin.wire.seen.length;
    expectStatus(await a.call('POST', '/job/closed-a', { as: people.bob, body: 'x' }), 404);
    expectStatus(await a.call('POST', '/job/closed-a', { as: other, body: 'x' }), 401);
    expectStatus(await a.call('POST', '/job/closed-a', { body: 'x' }), 401);
    const tokenOfCoordinator = `Bearer ${(await read(origin, people.alice, 'closed')).token}`;
    expectStatus(await a.call('POST', '/job/closed-a', { as: tokenOfCoordinator, body: 'x' }), 401);
    assert.deepEqual(
      origin.wire.seen.slice(heard).filter(({ path }) => path.includes('/closed/jobs')),
      [],
    );
    assert.deepEqual(await origin.outside.jobs(people.alice, 'closed'), []);
  });

  test('enter: a job reads the file of its event only if it is an input of the service; otherwise the event is the input', async () => {
    const { origin, a, people } = them;
    await delegating(them, 'reader', pair('reader'), { script: copying('.copy') });
    await origin.outside.create(
      people.alice,
      service('vault', 'true', { input: [], output: [{ storage_provider: 'minio.default', path: 'vault/x' }] }),
    );
    await origin.outside.put(people.alice, 'vault/secret', 'nobody reads this');
    await origin.outside.put(people.alice, 'reader/elsewhere/file', 'an ordinary file');
    const naming = (bucket: string, key: string) => ({
      Records: [
        {
          eventSource: 'minio:s3',
          eventName: 's3:ObjectCreated:Put',
          s3: { bucket: { name: bucket }, object: { key } },
        },
      ],
    });
    const token = `Bearer ${(await read(a, people.alice, 'reader-a')).token}`;
    for (const [as, event] of [
      [token, naming('vault', 'secret')],
      [people.alice, naming('vault', 'secret')],
      [token, naming('reader', 'elsewhere/file')],
    ] as const) {
      const id = await enter(a, as, 'reader-a', event);
      await endedWell(origin, people.alice, 'reader', id);
      const result = await origin.outside.get(people.alice, `reader/out/event-file-${id}.copy`);
      assert.equal(result, JSON.stringify(event));
    }
  });

  test('enter: with the token of the service, a worker of a star processes a file without a login (F35)', async () => {
    const { origin, a, people } = them;
    await delegating(them, 'tokened', [member(a, 'tokened-a')], { script: copying() });
    const token = `Bearer ${(await read(a, people.alice, 'tokened-a')).token}`;
    await origin.outside.put(people.alice, 'tokened/in/x', 'uploaded');
    const [uploaded] = await eventually(async () => {
      const jobs = await origin.outside.jobs(people.alice, 'tokened');
      assert.equal(jobs[0]?.state, 'succeeded');
      return jobs;
    });
    assert.ok(uploaded);
    const event = {
      Records: [
        {
          eventSource: 'minio:s3',
          eventName: 's3:ObjectCreated:Put',
          s3: { bucket: { name: 'tokened' }, object: { key: 'in/x' } },
        },
      ],
    };
    const id = await enter(a, token, 'tokened-a', event);
    const job = await endedWell(origin, people.alice, 'tokened', id);
    assert.equal(placeOf(job), a.id);
    assert.equal(await origin.outside.get(people.alice, 'tokened/out/x'), 'uploaded');
  });
});
