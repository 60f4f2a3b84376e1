import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import { type Heard, listen, type Said } from '../client/listener.fixture.ts';
import type { Offer } from '../delegation-ports.ts';
import { UpstreamTarget } from './upstream-target.ts';

const SPEAKER = {
  uid: 'f6a1',
  member: 'b/cow',
  key: new Secret('0123456789abcdef'.repeat(4)),
  bearer: new Secret('alice'),
};
const OFFER: Offer = {
  job: { service: 'cow', id: 'cow-1' },
  epoch: 4,
  service: 'cow',
  from: 'oscar-cluster',
  event: Buffer.from('{"a":1}'),
  trigger: 'job',
  pinned: false,
};

const STATUS = {
  cluster: {
    nodes_count: 3,
    metrics: { cpu: { total_free_cores: 1 } },
    nodes: [
      {
        name: 'one',
        cpu: { capacity_cores: 8000, usage_cores: 10, request_cores: 3000 },
        memory: { capacity_bytes: 1000, request_bytes: 400 },
        gpu: 2,
        is_interlink: false,
        status: 'Ready',
        conditions: [],
      },
      { name: 'idle', cpu: { capacity_cores: 1000 }, memory: {}, gpu: 0, status: 'Ready', conditions: [] },
      { name: 'down', cpu: { capacity_cores: 1000 }, memory: {}, gpu: 0, status: 'NotReady', conditions: [] },
    ],
  },
  oscar: {},
  minio: {},
};

/** As much of a manager in Go as is asked here: jobs by name, of one user, two to a page. */
async function startUpstream(t: TestContext, fault: (heard: Heard) => Said | undefined = () => undefined) {
  const jobs = new Map<string, object>();
  const respond = ({ method, url, headers }: Heard): Said => {
    if (headers.authorization !== 'Bearer alice') return { status: 401 };
    const { pathname, searchParams } = new URL(url, 'http://x');
    if (method === 'POST') {
      const id = String(headers['x-delegated-job-id']);
      if (jobs.has(id)) return { status: 500 };
      jobs.set(id, { status: 'Pending', creation_time: '2026-01-01T00:00:00Z' });
      return { status: 201 };
    }
    if (pathname === '/system/status') return { status: 200, json: STATUS };
    const id = pathname.split('/')[4];
    if (id === undefined) {
      const from = Number(searchParams.get('page') ?? 0);
      const page = Object.fromEntries([...jobs].slice(from, from + 2));
      return { status: 200, json: { jobs: page, ...(from + 2 < jobs.size && { next_page: String(from + 2) }) } };
    }
    if (method === 'DELETE') return { status: jobs.delete(id) ? 204 : 404 };
    return jobs.has(id) ? { status: 200, text: `printed${url.split('?')[1]}` } : { status: 500 };
  };
  const { address, connection, requests } = await listen(t, (heard) => fault(heard) ?? respond(heard), 'upstream');
  return { jobs, requests, target: new UpstreamTarget(address, connection) };
}

test('a job is sent as managers in Go send it to each other', async (t) => {
  const { target, requests } = await startUpstream(t);
  assert.deepEqual(await target.offer(OFFER, SPEAKER), { kind: 'taken', attempt: 'cow-1' });
  const [{ method, url, headers, body } = assert.fail('nobody was asked')] = requests;
  assert.equal(`${method} ${url}`, 'POST /job/cow');
  assert.equal(headers['x-delegated-job-id'], 'cow-1');
  assert.equal(headers['x-delegated-from'], 'oscar-cluster');
  assert.equal(headers['x-oscar-member'], undefined);
  assert.equal(body, '{"storage_provider":"default","event":"{\\"a\\":1}"}');
});

test('the same job again is found among those that are there, on whatever page', async (t) => {
  const { target, jobs, requests } = await startUpstream(t);
  for (const id of ['x', 'y', 'z']) jobs.set(id, { status: 'Running' });
  await target.offer(OFFER, SPEAKER);
  assert.deepEqual(await target.offer({ ...OFFER, epoch: 5 }, SPEAKER), { kind: 'taken', attempt: 'cow-1' });
  assert.equal(jobs.size, 4);
  assert.equal(requests.filter(({ method }) => method === 'POST').length, 2);
});

test('another fault over there is a refusal, since the job is not there', async (t) => {
  const { target } = await startUpstream(t, ({ method }) => (method === 'POST' ? { status: 500 } : undefined));
  const answer = await target.offer(OFFER, SPEAKER);
  assert.equal(answer.kind === 'refused' && answer.code, 'failed');
});

test('Go target: without a token of the owner no request is sent, and a rejected token is not replaced (F6)', async (t) => {
  const { target, requests } = await startUpstream(t);
  const { bearer: _, ...keyOnly } = SPEAKER;
  const none = await target.offer(OFFER, keyOnly);
  assert.equal(none.kind === 'refused' && none.code, 'not-allowed');
  await assert.rejects(target.status(keyOnly), { name: 'PeerError', code: 'refused' });
  assert.equal(requests.length, 0);
  const bad = await target.offer(OFFER, { ...SPEAKER, bearer: new Secret('bob') });
  assert.equal(bad.kind === 'refused' && bad.code, 'not-allowed');
  assert.equal(requests.length, 1);
});

test('an answer that never comes says nothing about the job, and it is not sent twice by itself', async (t) => {
  const { target, requests } = await startUpstream(t, () => ({ status: 502 }));
  await assert.rejects(target.offer(OFFER, SPEAKER), { name: 'PeerError', code: 'unreachable' });
  assert.equal(requests.length, 1);
});

test('what became of a job is in the list', async (t) => {
  const { target, jobs } = await startUpstream(t);
  assert.equal(await target.state(OFFER, SPEAKER), undefined);
  const times = { start_time: '2026-01-01T00:00:00Z', finish_time: '2026-01-01T00:00:30Z' };
  jobs.set('cow-1', { status: 'Succeeded', creation_time: '2026-01-01T00:00:00Z', ...times });
  assert.deepEqual(await target.state(OFFER, SPEAKER), {
    phase: 'Succeeded',
    startedAt: Date.UTC(2026, 0, 1),
    finishedAt: Date.UTC(2026, 0, 1, 0, 0, 30),
  });
  jobs.set('cow-1', { status: 'Strange', start_time: 'never' });
  assert.deepEqual(await target.state(OFFER, SPEAKER), { phase: 'Unknown' });
});

test('that jobs may not be seen is no sign that there are none (R7)', async (t) => {
  const { target } = await startUpstream(t, () => ({ status: 200 }));
  await assert.rejects(target.state(OFFER, SPEAKER), { name: 'PeerError', code: 'refused' });
});

test('a job is ended with its log; one that is not there is no mistake', async (t) => {
  const { target, jobs } = await startUpstream(t);
  jobs.set('cow-1', { status: 'Running' });
  const log = target.logs(OFFER, { timestamps: true, follow: true }, SPEAKER);
  assert.equal(Buffer.concat(await Array.fromAsync(log)).toString(), 'printedtimestamps=true');
  await target.stop(OFFER, SPEAKER);
  await target.stop(OFFER, SPEAKER);
  assert.equal(jobs.size, 0);
  const gone = target.logs(OFFER, { timestamps: false, follow: false }, SPEAKER);
  await assert.rejects(Array.fromAsync(gone), { name: 'PeerError' });
});

test('Go target: the log of a job that waits there is empty, although it is answered with an error', async (t) => {
  const { target, jobs } = await startUpstream(t, ({ method, url }) =>
    method === 'GET' && url.startsWith('/system/logs/cow/') ? { status: 500 } : undefined,
  );
  for (const status of ['Pending', 'Suspended']) {
    jobs.set('cow-1', { status });
    assert.deepEqual(await Array.fromAsync(target.logs(OFFER, { timestamps: false, follow: false }, SPEAKER)), []);
  }
  jobs.set('cow-1', { status: 'Running' });
  await assert.rejects(Array.fromAsync(target.logs(OFFER, { timestamps: false, follow: false }, SPEAKER)));
});

test('Go target: free capacity is what is not requested, on ready nodes', async (t) => {
  const { target, jobs } = await startUpstream(t);
  jobs.set('a', { status: 'Pending' });
  jobs.set('b', { status: 'Succeeded', start_time: '2026-01-01T00:00:00Z', finish_time: '2026-01-01T00:00:30Z' });
  const { roundTrip, ...status } = await target.status(SPEAKER);
  assert.ok(roundTrip !== undefined && roundTrip > 0);
  assert.deepEqual(status, {
    nodes: [
      { cpu: 5000, memory: 600, gpu: 2 },
      { cpu: 1000, memory: 0, gpu: 0 },
    ],
    nodeCount: 3,
    freeCpu: 6000,
    age: 0,
    total: { cpu: 9000, memory: 1000, gpu: 2 },
    pending: 1,
    meanDuration: 30,
  });
});

test('a status without nodes is one, and counts without the list of jobs', async (t) => {
  const empty = { status: 200, json: { cluster: { nodes_count: 0, nodes: null } } };
  const { target } = await startUpstream(t, ({ url }) => (url === '/system/status' ? empty : { status: 500 }));
  const { roundTrip: _, ...status } = await target.status(SPEAKER);
  assert.deepEqual(status, { nodes: [], nodeCount: 0, freeCpu: 0, age: 0, total: { cpu: 0, memory: 0, gpu: 0 } });
});

test('what is no status of a manager is none', async (t) => {
  const { target } = await startUpstream(t, () => ({ status: 200, json: { nodes: [] } }));
  await assert.rejects(target.status(SPEAKER), { name: 'PeerError', code: 'unreachable' });
});
