import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';
import { text as readText } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { observedJobs } from '../../jobs/index.ts';
import { Secret } from '../../lib/secret.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { jobMeters, Meters, meterRequests } from '../prometheus.ts';
import { ADMIN, ALICE, addJob, CAROL, type Get, openTestCluster, serve } from './metrics.fixture.ts';
import { prometheusRoutes } from './scrape.ts';

const NOW = 1_000_000_000;

async function start(t: TestContext, token?: string) {
  const cluster = openTestCluster(t, () => NOW);
  const meters = new Meters();
  const jobs = observedJobs(cluster.jobs, [jobMeters(meters)]);
  const get = await serve(t, (app, authenticator) => {
    meterRequests(app, meters);
    app.get('/echo/:name', async () => 'ok');
    app.get('/broken', async () => {
      throw new Error('broken');
    });
    prometheusRoutes(app, {
      authenticator,
      meters,
      jobs,
      now: () => NOW,
      token: token ? new Secret(token) : undefined,
    });
  });
  return { get, jobs };
}

async function figures(get: Get): Promise<Map<string, number>> {
  const { status, type, text } = await get('/metrics', ADMIN);
  assert.deepEqual([status, type], [200, 'text/plain; version=0.0.4; charset=utf-8']);
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]),
  );
}

test('before anything has happened everything is there, and zero', async (t) => {
  const { get } = await start(t);
  const all = await figures(get);
  for (const state of ['accepted', 'queued', 'offering', 'delegated', 'running', 'committing', 'succeeded']) {
    assert.equal(all.get(`oscar_jobs{state="${state}"}`), 0);
  }
  for (const trigger of ['storage', 'job', 'run']) {
    assert.equal(all.get(`oscar_jobs_accepted_total{trigger="${trigger}"}`), 0);
  }
  for (const outcome of ['succeeded', 'failed', 'cancelled']) {
    assert.equal(all.get(`oscar_jobs_finished_total{outcome="${outcome}"}`), 0);
  }
  assert.equal(all.get('oscar_jobs_waiting'), 0);
  assert.equal(all.get('oscar_jobs_oldest_waiting_seconds'), 0);
  assert.ok(all.has('process_cpu_seconds_total') && all.has('nodejs_eventloop_utilization'));
});

test('jobs are counted by state, and the oldest that waits is known', async (t) => {
  const { get, jobs } = await start(t);
  await addJob(jobs, { service: 'a', acceptedAt: NOW - 90_000, state: 'queued' });
  await addJob(jobs, { service: 'b', acceptedAt: NOW - 30_000, state: 'queued' });
  await addJob(jobs, { service: 'b', acceptedAt: NOW - 120_000, state: 'running' });
  const all = await figures(get);
  assert.equal(all.get('oscar_jobs{state="queued"}'), 2);
  assert.equal(all.get('oscar_jobs{state="running"}'), 1);
  assert.equal(all.get('oscar_jobs_waiting'), 2);
  assert.equal(all.get('oscar_jobs_oldest_waiting_seconds'), 90);
});

test('what is accepted and what ends is counted once, with how long it ran', async (t) => {
  const { get, jobs } = await start(t);
  const first = await addJob(jobs, { service: 'a', acceptedAt: NOW, ran: 4_000 });
  await addJob(jobs, { service: 'a', acceptedAt: NOW, ran: 40_000, trigger: 'run' });
  await addJob(jobs, { service: 'a', acceptedAt: NOW, ran: 500, state: 'failed' });
  await addJob(jobs, { service: 'a', acceptedAt: NOW, state: 'cancelled' });
  await jobs.accept(first, first, new Uint8Array());
  await jobs.update(first, first.version, { message: 'seen' });
  await assert.rejects(jobs.update(first, first.version, { state: 'failed' }), { code: 'conflict' });

  const all = await figures(get);
  assert.equal(all.get('oscar_jobs_accepted_total{trigger="job"}'), 3);
  assert.equal(all.get('oscar_jobs_accepted_total{trigger="run"}'), 1);
  assert.equal(all.get('oscar_jobs_finished_total{outcome="succeeded"}'), 2);
  assert.equal(all.get('oscar_jobs_finished_total{outcome="failed"}'), 1);
  assert.equal(all.get('oscar_jobs_finished_total{outcome="cancelled"}'), 1);
  assert.equal(all.get('oscar_job_duration_seconds_sum{outcome="succeeded"}'), 44);
  assert.equal(all.get('oscar_job_duration_seconds_bucket{outcome="succeeded",le="5"}'), 1);
  assert.equal(all.get('oscar_job_duration_seconds_count{outcome="failed"}'), 1);
  assert.equal(all.has('oscar_job_duration_seconds_count{outcome="cancelled"}'), false);
});

test('the lag of an event is the time from its object to its job, and never less than none', async (t) => {
  const { get, jobs } = await start(t);
  const object = { bucket: 'in', key: 'a' };
  const job = { service: 'a', acceptedAt: NOW, trigger: 'storage', state: 'queued' } as const;
  await addJob(jobs, { ...job, object: { ...object, modifiedAt: NOW - 3_000 } });
  await addJob(jobs, { ...job, object: { ...object, modifiedAt: NOW + 3_000 } });
  await addJob(jobs, { ...job, object });
  const all = await figures(get);
  assert.equal(all.get('oscar_storage_event_lag_seconds_count'), 2);
  assert.equal(all.get('oscar_storage_event_lag_seconds_sum'), 3);
});

test('a metered store is the store', async (t) => {
  const { jobs } = await start(t);
  const record = await addJob(jobs, { service: 'a', acceptedAt: NOW, trigger: 'job', ran: 1_000 });
  assert.deepEqual(await jobs.get(record), record);
  assert.deepEqual(await jobs.event(record), new Uint8Array());
  assert.deepEqual((await jobs.list({ service: 'a', limit: 5 })).items, [record]);
  assert.deepEqual(await Array.fromAsync(jobs.unfinished()), []);
  const { cursor } = await jobs.changes({ limit: 5 });
  let told = 0;
  t.after(jobs.onChange(() => told++));
  assert.equal((await jobs.usage({ from: 0, to: NOW + 1 })).length, 1);
  assert.equal(await jobs.dropTombstones('uid-of-a', NOW), 0);
  assert.equal((await jobs.expire(NOW, 5)).length, 0);
  assert.equal(await jobs.remove(record), true);
  assert.equal((await jobs.changes({ since: cursor, limit: 5 })).items.length, 1);
  await eventually(() => assert.ok(told > 0));
  await addJob(jobs, { service: 'a', acceptedAt: NOW });
  assert.equal((await jobs.removeService('uid-of-a')).length, 1);
  assert.equal(await jobs.oldestWaiting(), undefined);
});

test('requests are timed by the pattern of their route, and those without a route together', async (t) => {
  const { get } = await start(t);
  for (const path of ['/echo/first', '/echo/second?token=secret', '/broken', '/nowhere/1', '/nowhere/2'])
    await get(path);
  // A request is counted once it has been answered: the last ones may still be under way.
  const all = await eventually(async () => {
    const found = await figures(get);
    assert.equal(found.get('oscar_http_request_duration_seconds_count{method="GET",route="none",status="404"}'), 2);
    return found;
  });
  const count = (labels: string) => all.get(`oscar_http_request_duration_seconds_count{${labels}}`);
  assert.equal(count('method="GET",route="/echo/:name",status="200"'), 2);
  assert.equal(count('method="GET",route="/broken",status="500"'), 1);
  const labels = [...all.keys()].join('\n');
  assert.doesNotMatch(labels, /nowhere|echo\/[^:]|secret/);
});

test('Prometheus: only the administrator reads the metrics, no user or operator', async (t) => {
  const { get } = await start(t);
  assert.equal((await get('/metrics', ADMIN)).status, 200);
  for (const as of [ALICE, CAROL]) {
    const { status, text } = await get('/metrics', as);
    assert.deepEqual([status, text], [403, 'only the administrator may read these figures']);
  }
  assert.equal((await get('/metrics')).status, 401);
  assert.equal((await get('/metrics', `Basic ${Buffer.from('oscar:wrong').toString('base64')}`)).status, 401);
});

test('with a token of their own scrapers need no password; any other bearer is a user', async (t) => {
  const { get } = await start(t, 'scrape-me');
  assert.equal((await get('/metrics', 'Bearer scrape-me')).status, 200);
  assert.equal((await get('/metrics', ADMIN)).status, 200);
  assert.equal((await get('/metrics', 'Bearer scrape-me-not')).status, 403);
  assert.equal((await get('/metrics', 'Basic scrape-me')).status, 401);
  assert.equal((await get('/metrics')).status, 401);
});

test('without a token of their own nothing is one, not even the empty one', async (t) => {
  const { get } = await start(t);
  assert.equal((await get('/metrics', 'Bearer ')).status, 401);
  assert.equal((await get('/metrics', 'Bearer undefined')).status, 403);
});

test('two credentials at once are refused, although one of them is the token', async (t) => {
  const cluster = openTestCluster(t, () => NOW);
  let port = 0;
  await serve(t, (app, authenticator) => {
    const deps = { authenticator, meters: new Meters(), jobs: cluster.jobs, now: () => NOW };
    prometheusRoutes(app, { ...deps, token: new Secret('scrape-me') });
    app.addHook('onListen', async () => {
      ({ port } = app.server.address() as AddressInfo);
    });
  });
  const socket = connect({ host: '127.0.0.1', port }).setEncoding('utf8');
  const received = readText(socket);
  await once(socket, 'connect');
  socket.write('GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n');
  socket.write('authorization: Bearer scrape-me\r\nauthorization: Bearer other\r\n\r\n');
  assert.match(await received, /^HTTP\/1\.1 400 /);
});

test('two managers in one process have figures of their own', async (t) => {
  const [one, other] = [await start(t), await start(t)];
  await addJob(one.jobs, { service: 'a', acceptedAt: NOW, state: 'queued' });
  assert.equal((await figures(one.get)).get('oscar_jobs_accepted_total{trigger="job"}'), 1);
  assert.equal((await figures(other.get)).get('oscar_jobs_accepted_total{trigger="job"}'), 0);
});
