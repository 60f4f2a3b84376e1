import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { ADMIN, ALICE, addJob, addService, BOB, CAROL, type Get, openTestCluster, serve } from './metrics.fixture.ts';
import { metricsRoutes } from './metrics.ts';

const HOUR = 3_600_000;
const NOW = Date.parse('2026-11-16T12:00:00.250Z');
const RANGE = 'start=2026-11-01T00:00:00Z&end=2026-11-30T00:00:00Z';

/** Alice has a private service and a public one, which bob used, too. */
async function start(t: TestContext, rememberedMs?: number): Promise<Get> {
  const cluster = openTestCluster(t, () => NOW);
  await addService(cluster, 'hers');
  await addService(cluster, 'open', { definition: { visibility: 'public' } });
  await addService(cluster, 'his', { owner: 'bob' });
  const [at, { jobs }] = [NOW - HOUR, cluster];
  await addJob(jobs, { service: 'hers', acceptedAt: at, ran: HOUR / 2, demand: { cpu: 500, memory: 0, gpu: 1 } });
  await addJob(jobs, { service: 'open', acceptedAt: at, trigger: 'run', ran: HOUR / 4 });
  await addJob(jobs, { service: 'open', acceptedAt: at, invoker: 'bob', state: 'failed' });
  await addJob(jobs, { service: 'open', acceptedAt: at, invoker: '', trigger: 'storage', state: 'queued' });
  await addJob(jobs, { service: 'open', acceptedAt: at - 30 * 24 * HOUR, invoker: 'dora' });
  return serve(t, (app, authenticator) =>
    metricsRoutes(app, { authenticator, services: cluster.services, jobs, now: () => NOW, rememberedMs }),
  );
}

const json = async (get: Get, path: string, as = ADMIN) => {
  const { status, type, text } = await get(path, as);
  assert.deepEqual([status, type], [200, 'application/json; charset=utf-8'], text);
  return JSON.parse(text);
};

test('the totals are those of the last day unless the query says otherwise, with the keys of the Go manager', async (t) => {
  const get = await start(t);
  const { text } = await get('/system/metrics', ADMIN);
  assert.equal(
    text.replace(/"notes":"[^"]+"/g, '"notes":"<text>"'),
    '{"start":"2026-11-15T12:00:00.250Z","end":"2026-11-16T12:00:00.250Z","totals":{"services_count_active":3,' +
      '"services_count_total":2,"cpu_hours_total":0.5,"gpu_hours_total":0.5,"requests_count_total":4,' +
      '"requests_count_sync":1,"requests_count_async":3,"requests_count_exposed":0,"countries_count":0,"countries":[],' +
      '"users_count":3,"users":["alice","bob","nil"]},"sources":[{"name":"service-inventory","status":"ok"},' +
      '{"name":"prometheus","status":"partial","notes":"<text>"},{"name":"request-logs","status":"ok"},' +
      '{"name":"country-attribution","status":"missing","notes":"<text>"},' +
      '{"name":"exposed-request-logs","status":"ok"}]}',
  );
});

test('where nothing was run there are no countries and no users', async (t) => {
  const get = await start(t);
  const { text } = await get('/system/metrics?start=2020-01-01T00:00:00Z&end=2020-01-02T00:00:00Z', ADMIN);
  assert.match(text, /^\{"start":"2020-01-01T00:00:00Z","end":"2020-01-02T00:00:00Z","totals":\{/);
  assert.match(text, /"countries_count":0,"countries":null,"users_count":0,"users":null\}/);
  assert.match(text, /"services_count_active":3,"services_count_total":0,/);
  assert.doesNotMatch(text, /country-attribution/);
});

test('the ends of a range: the first is in it, the last is not', async (t) => {
  const get = await start(t);
  const requests = async (query: string) => (await json(get, `/system/metrics?${query}`)).totals.requests_count_total;
  assert.equal(await requests('start=2026-11-16T11:00:00.250Z&end=2026-11-16T11:00:00.251Z'), 4);
  assert.equal(await requests('start=2026-11-16T10:00:00Z&end=2026-11-16T11:00:00.250Z'), 0);
  assert.equal(await requests('start=2026-11-16T13:00:00.250%2B02:00'), 4);
  assert.equal(await requests('end=2026-11-16T12:00:00Z'), 4);
});

test('what came in at this very moment counts', async (t) => {
  const cluster = openTestCluster(t, () => NOW);
  await addService(cluster, 'hers');
  await addJob(cluster.jobs, { service: 'hers', acceptedAt: NOW });
  const get = await serve(t, (app, authenticator) =>
    metricsRoutes(app, { authenticator, services: cluster.services, jobs: cluster.jobs, now: () => NOW }),
  );
  assert.equal((await json(get, '/system/metrics')).totals.requests_count_total, 1);
});

test('when jobs of the range may be forgotten already, the source says so', async (t) => {
  const get = await start(t, 2 * HOUR);
  const [, , inside] = (await json(get, '/system/metrics?start=2026-11-16T10:30:00Z')).sources;
  assert.deepEqual(inside, { name: 'request-logs', status: 'ok' });
  const [, , before] = (await json(get, '/system/metrics')).sources;
  assert.equal(before.status, 'partial');
  assert.match(before.notes, /^jobs that ended before 2026-11-16T10:00:00.250Z are no longer remembered/);
});

test('a user is told of the services they see, and of other users only where the service is theirs', async (t) => {
  const get = await start(t);
  const totals = async (as: string) => (await json(get, '/system/metrics', as)).totals;
  const alice = await totals(ALICE);
  assert.deepEqual([alice.services_count_active, alice.requests_count_total], [2, 4]);
  assert.deepEqual([alice.users_count, alice.users], [3, ['alice', 'bob', 'nil']]);
  const bob = await totals(BOB);
  assert.deepEqual([bob.services_count_active, bob.requests_count_total, bob.gpu_hours_total], [2, 3, 0]);
  assert.deepEqual([bob.users_count, bob.users], [3, ['bob', 'nil']]);
  const carol = await totals(CAROL);
  assert.deepEqual([carol.services_count_active, carol.users], [1, ['alice', 'bob', 'nil']]);
});

const breakdowns = [
  {
    name: 'by service',
    query: 'group_by=service',
    body:
      '"group_by":"service","items":[{"key":"hers","requests_count_total":1,"requests_count_sync":0,' +
      '"requests_count_async":1,"requests_count_exposed":0,"unique_users_count":1,"countries":[]},' +
      '{"key":"open","requests_count_total":3,"requests_count_sync":1,"requests_count_async":2,' +
      '"requests_count_exposed":0,"unique_users_count":3,"countries":[]}]}',
  },
  {
    name: 'by service, with users',
    query: 'group_by=service&include_users=true',
    as: BOB,
    body:
      '"group_by":"service","items":[{"key":"open","requests_count_total":3,"requests_count_sync":1,' +
      '"requests_count_async":2,"requests_count_exposed":0,"unique_users_count":3,"users":["bob","nil"],' +
      '"countries":[]}]}',
  },
  {
    name: 'by user',
    query: 'group_by=user',
    body:
      '"group_by":"user","items":[{"key":"alice","membership":"unknown","executions_count":2,"countries":[]},' +
      '{"key":"bob","membership":"unknown","executions_count":1,"countries":[]},' +
      '{"key":"nil","membership":"unknown","executions_count":1,"countries":[]}]}',
  },
  {
    name: 'by user, for a user of a service of somebody else',
    query: 'group_by=user',
    as: BOB,
    body:
      '"group_by":"user","items":[{"key":"bob","membership":"unknown","executions_count":1,"countries":[]},' +
      '{"key":"nil","membership":"unknown","executions_count":1,"countries":[]}]}',
  },
  {
    name: 'by country',
    query: 'group_by=country',
    body:
      '"group_by":"country","items":[{"key":"unknown","executions_count":4,"unique_users_count":3,' +
      '"countries":[{"country":"unknown","request_count":4}]}]}',
  },
];
for (const { name, query, as = ADMIN, body } of breakdowns) {
  test(`a breakdown ${name}`, async (t) => {
    const { text } = await (await start(t))(`/system/metrics/breakdown?${query}&${RANGE}`, as);
    assert.equal(text, `{"start":"2026-11-01T00:00:00Z","end":"2026-11-30T00:00:00Z",${body}`);
  });
}

test('where nothing was run, a breakdown has no items', async (t) => {
  const get = await start(t);
  for (const group of ['service', 'user', 'country']) {
    const query = `group_by=${group}&start=2020-01-01T00:00:00Z&end=2020-01-02T00:00:00Z`;
    assert.deepEqual((await json(get, `/system/metrics/breakdown?${query}`)).items, []);
  }
});

const tables = [
  {
    group: 'service',
    table:
      'key,membership,requests_count_total,requests_count_sync,requests_count_async,requests_count_exposed,' +
      'unique_users_count,countries\nhers,,1,0,1,0,1,\nopen,,3,1,2,0,3,\n',
  },
  {
    group: 'user',
    table: 'key,membership,executions_count,countries\nalice,unknown,2,\nbob,unknown,1,\nnil,unknown,1,\n',
  },
  {
    group: 'country',
    table: 'key,membership,executions_count,unique_users_count,countries\nunknown,,4,3,unknown:4\n',
  },
];
for (const { group, table } of tables) {
  test(`a breakdown by ${group} as a table`, async (t) => {
    const answer = await (await start(t))(`/system/metrics/breakdown?group_by=${group}&format=csv&${RANGE}`, ADMIN);
    assert.deepEqual(answer, { status: 200, type: 'text/csv', text: table });
  });
}

test('the figures of one service, all or one of them', async (t) => {
  const get = await start(t);
  const { text } = await get(`/system/metrics/hers?${RANGE}`, ALICE);
  assert.equal(
    text.replace(/"notes":"[^"]+"/g, '"notes":"<text>"'),
    '{"service_name":"hers","start":"2026-11-01T00:00:00Z","end":"2026-11-30T00:00:00Z","metrics":[' +
      '{"metric":"cpu-hours","value":0.25,"unit":"hours","sources":[{"name":"prometheus","status":"partial","notes":"<text>"}]},' +
      '{"metric":"gpu-hours","value":0.5,"unit":"hours","sources":[{"name":"prometheus","status":"partial","notes":"<text>"}]},' +
      '{"metric":"requests-sync-per-service","value":0,"sources":[{"name":"request-logs","status":"ok"}]},' +
      '{"metric":"requests-async-per-service","value":1,"sources":[{"name":"request-logs","status":"ok"}]},' +
      '{"metric":"requests-exposed-per-service","value":0,"sources":[{"name":"exposed-request-logs","status":"ok"}]},' +
      '{"metric":"users-per-service","value":1,"sources":[{"name":"request-logs","status":"ok"}]}]}',
  );
  assert.equal(
    (await get(`/system/metrics/open?metric=users-per-service&${RANGE}`, BOB)).text,
    '{"service_id":"open","metric":"users-per-service","start":"2026-11-01T00:00:00Z","end":"2026-11-30T00:00:00Z",' +
      '"value":3,"sources":[{"name":"request-logs","status":"ok"}]}',
  );
});

test('a service that a user does not see is 403, one that does not exist is 404, both without a body', async (t) => {
  const get = await start(t);
  assert.deepEqual(await get('/system/metrics/hers', BOB), { status: 403, type: null, text: '' });
  assert.deepEqual(await get('/system/metrics/hers', CAROL), { status: 403, type: null, text: '' });
  assert.deepEqual(await get('/system/metrics/nope', BOB), { status: 404, type: null, text: '' });
  const { metrics } = await json(get, '/system/metrics/nope');
  assert.ok(metrics.every(({ value }: { value: number }) => value === 0));
});

const mistakes = [
  { path: '?start=yesterday', says: /^start: must be a time as in RFC 3339/ },
  { path: '?end=2026-02-30T00:00:00Z', says: /^end: must be a time/ },
  { path: '?end=2026-13-01T00:00:00Z', says: /^end: must be a time/ },
  { path: '?end=2026-11-16', says: /^end: must be a time/ },
  { path: '?end=2026-11-16T25:00:00Z', says: /^end: must be a time/ },
  { path: '?end=2026-11-16T00:00:00+01:00', says: /^end: must be a time.*%2B/ },
  { path: '?start=2026-01-02T00:00:00Z&end=2026-01-01T00:00:00Z', says: /^end: lies before start/ },
  { path: '?start=2099-01-01T00:00:00Z', says: /^end: lies before start/ },
  { path: '/breakdown', says: /^group_by: must be one of service, user, country/ },
  { path: '/breakdown?group_by=zzz', says: /^group_by: must be one of/ },
  { path: '/breakdown?group_by=service&format=xml', says: /^format: must be one of json, csv/ },
  { path: '/breakdown?group_by=service&include_users=maybe', says: /^include_users: must be one of/ },
  { path: '/breakdown?group_by=service&format=csv&include_users=true', says: /^include_users: a table has no column/ },
  { path: '/breakdown?group_by=user&start=x', says: /^start: must be a time/ },
  { path: '/hers?metric=zzz', says: /^metric: must be one of cpu-hours/ },
  { path: '/hers?metric=countries-list', says: /^metric: must be one of cpu-hours/ },
  { path: '/hers?end=never', says: /^end: must be a time/ },
  { path: '/Not%20a%20name', says: /service name in the path is invalid/ },
];
test('a mistake is 400, and said in JSON', async (t) => {
  const get = await start(t);
  for (const { path, says } of mistakes) {
    await t.test(path, async () => {
      const { status, type, text } = await get(`/system/metrics${path}`, ADMIN);
      assert.deepEqual([status, type], [400, 'application/json; charset=utf-8']);
      const { error, ...others } = JSON.parse(text) as { error: string };
      assert.deepEqual(others, {});
      assert.match(error, says);
    });
  }
});

test('parameters that are empty are as good as none', async (t) => {
  const get = await start(t);
  assert.equal((await json(get, '/system/metrics?start=&end=')).start, '2026-11-15T12:00:00.250Z');
  assert.equal((await json(get, '/system/metrics/hers?metric=')).service_name, 'hers');
  const path = '/system/metrics/breakdown?group_by=user&format=&include_users=';
  assert.equal((await json(get, path)).group_by, 'user');
});

test('without credentials there is nothing, and nothing is told', async (t) => {
  const get = await start(t);
  for (const path of ['/system/metrics', '/system/metrics/breakdown', '/system/metrics/hers']) {
    assert.deepEqual(await get(path), { status: 401, type: null, text: '' });
  }
});
