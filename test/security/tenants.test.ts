import assert from 'node:assert/strict';
import diagnostics from 'node:diagnostics_channel';
import { after, before, describe, test } from 'node:test';
import type { FastifyInstance } from 'fastify';
import { BOB } from '../support/issuer-users.ts';
import { ADMIN, startTestManager, type TestManager } from '../support/manager.ts';
import { type People, startPeople } from '../support/people.ts';

/**
 * The status of every route for every relation of a caller to a service, or to a bucket below /system/buckets:
 *
 * - stranger: without credentials; foreign: with the token of another service
 * - outsider: a user who must not see it; guest: a user with whom it is shared
 * - token, shared: with the service's own token, if the service is private, and if others may see it
 *
 * A new route fails the test until it has a row. `open` is any status without a check of credentials. The rows that end with
 * `signed` and `coordinator` are for other managers; here their requests are forged, so nobody may be let in.
 */
const TABLE = `
                                                          stranger outsider guest owner   admin   token shared foreign
GET /health                                               open     open     open  open    open    open  open   open
GET /ready                                                open     open     open  open    open    open  open   open
GET /openapi.json                                         open     open     open  open    open    open  open   open
GET /                                                     open     open     open  open    open    open  open   open
GET /ui/*                                                 open     open     open  open    open    open  open   open
HEAD /ui/*                                                open     open     open  open    open    open  open   open
GET /ui/config.json                                       open     open     open  open    open    open  open   open
GET /ui/sign-in                                           open     open     open  open    open    open  open   open
POST /ui/sign-in/device                                   open     open     open  open    open    open  open   open
POST /ui/sign-in/token                                    open     open     open  open    open    open  open   open
GET /metrics                                              401      403      403   403     200     401   401    401
GET /system/info                                          401      200      200   200     200     401   401    401
GET /system/status                                        401      200      200   200     200     401   401    401
GET /system/events                                        401      200      200   200     200     401   401    401
GET /system/config                                        401      200      200   200     200     401   401    401
PUT /system/config                                        401      401      401   401     200     401   401    401
POST /system/config/keys                                  401      200      200   200     400     401   401    401
GET /system/checks                                        401      403      403   403     200     401   401    401
GET /system/audit                                         401      403      403   403     200     401   401    401
GET /system/logs                                          401      403      403   403     200     401   401    401
GET /system/metrics                                       401      200      200   200     200     401   401    401
GET /system/metrics/breakdown                             401      200      200   200     200     401   401    401
GET /system/metrics/:name                                 401      403      200   200     200     401   401    401
POST /system/events/storage                               401      401      401   401     401     401   401    401
GET /system/services                                      401      200      200   200     200     401   401    401
POST /system/services                                     401      409      409   409     409     401   401    401
PUT /system/services                                      401      404      403   204     204     401   401    401
GET /system/services/:name                                401      404      200   200     200     401   401    401
DELETE /system/services/:name                             401      404      403   204     204     401   401    401
GET /system/services/:name/auth                           401      404      200   200     200     200   200    401
GET /system/services/:name/deployment                     401      404      200   200     200     401   401    401
GET /system/services/:name/deployment/logs                401      404      200   200     200     401   401    401
GET /system/buckets                                       401      200      200   200     200     401   401    401
POST /system/buckets                                      401      400      400   400     400     401   401    401
PUT /system/buckets                                       401      403      403   204     204     401   401    401
GET /system/buckets/:name                                 401      403      200   200     200     401   401    401
DELETE /system/buckets/:name                              401      403      403   204     204     401   401    401
POST /system/buckets/:name/presign                        401      403      200   200     200     401   401    401
POST /job/:name                                           401      404      201   201     401     201   201    401
POST /run/:name                                           401      404      200   200     401     200   200    401
GET /system/logs/:name                                    401      404      200   200     200     401   401    401
DELETE /system/logs/:name                                 401      404      204   204     204     401   401    401
GET /system/logs/:name/:id                                401      404      404   200     200     401   401    401
DELETE /system/logs/:name/:id                             401      404      404   204     204     401   401    401
GET /system/jobs                                          401      200      200   200     200     401   401    401
GET /system/jobs/:name                                    401      404      200   200     200     401   401    401
GET /system/jobs/:name/:id                                401      404      404   200     200     401   401    401
DELETE /system/jobs/:name/:id                             401      404      404   2xx/409 2xx/409 401   401    401
GET /system/clusters                                      401      200      200   200     200     401   401    401
GET /system/federation/:name                              401      404      200   200     200     200   200    401
POST /system/federation/:name                             401      404      403   200     200     200   403    401
PUT /system/federation/:name                              401      404      403   200     200     403   403    401
DELETE /system/federation/:name                           401      404      403   200     200     403   403    401
DELETE /system/federation/:name/token                     401      404      403   204     204     403   403    401
GET /system/replicas/:name                                401      404      200   200     200     200   200    401
POST /system/replicas/:name                               401      404      403   200     200     200   403    401
PUT /system/replicas/:name                                401      404      403   200     200     403   403    401
DELETE /system/replicas/:name                             401      404      403   200     200     403   403    401
GET /system/services/:name/federation                     401      200      200   200     200     401   401    401
PUT /system/services/:name/federation                     401      401      401   401     401     401   401    401
DELETE /system/services/:name/federation                  401      401      401   401     401     401   401    401
POST /system/federation/:name/changes                     401      401      401   401     401     401   401    401
POST /system/federation/:name/departures                  401      401      401   401     401     401   401    401
POST /system/federation/:name/jobs                        401      401      401   401     401     401   401    401
POST /system/federation/:name/jobs/:id/attempts/:epoch    401      401      401   401     401     401   401    401
POST /system/services coordinator                         401      400      400   400     400     401   401    401
PUT /system/services coordinator                          401      400      400   400     400     401   401    401
POST /job/:name signed                                    404      404      404   404     404     404   404    404
DELETE /system/jobs/:name/:id signed                      401      401      401   401     401     401   401    401
GET /system/logs/:name/:id signed                         401      401      401   401     401     401   401    401
GET /system/status signed                                 404      404      404   404     404     404   404    404
GET /system/config signed                                 400      400      400   400     400     400   400    400
`;

/**
 * Routes that answer differently for what is not there and for what is not the caller's: clients of the Go manager depend on
 * it, and the recorded exchanges fix it (decision 0009).
 */
const FIXED_DIFFERENCES = [
  'DELETE /system/buckets/:name',
  'GET /system/metrics/:name',
  'POST /system/buckets/:name/presign',
];

type Visibility = 'private' | 'restricted' | 'public';
type Caller = 'nobody' | 'alice' | 'bob' | 'carol' | 'admin' | 'token' | 'other token';

/** Alice owns everything; what is restricted is shared with Bob. */
const RELATIONS: Record<Visibility, Record<Caller, string>> = {
  private: {
    nobody: 'stranger',
    alice: 'owner',
    bob: 'outsider',
    carol: 'outsider',
    admin: 'admin',
    token: 'token',
    'other token': 'foreign',
  },
  restricted: {
    nobody: 'stranger',
    alice: 'owner',
    bob: 'guest',
    carol: 'outsider',
    admin: 'admin',
    token: 'shared',
    'other token': 'foreign',
  },
  public: {
    nobody: 'stranger',
    alice: 'owner',
    bob: 'guest',
    carol: 'guest',
    admin: 'admin',
    token: 'shared',
    'other token': 'foreign',
  },
};
const VISIBILITIES = Object.keys(RELATIONS) as Visibility[];
const CALLERS = Object.keys(RELATIONS.private) as Caller[];

const [columns = [], ...rows] = TABLE.trim()
  .split('\n')
  .map((line) => line.trim().split(/\s+/));
const expectations = new Map(
  rows.map((row) => {
    const cells = row.slice(-columns.length);
    return [
      row.slice(0, -columns.length).join(' '),
      new Map(columns.map((column, index) => [column, cells[index] ?? ''])),
    ];
  }),
);

/** The routes of the manager, from its own table, so that no new route is left out. */
const routes: string[] = [];
function collect(message: unknown): void {
  const { fastify } = message as { readonly fastify: FastifyInstance };
  fastify.addHook('onRoute', ({ method, url, constraints }) => {
    for (const each of [method].flat()) routes.push([each, url, ...Object.keys(constraints ?? {})].join(' '));
  });
}

let people: People;
let manager: TestManager;
const tokens = new Map<string, string>();
const jobs = new Map<Visibility, string>();

before(async () => {
  people = await startPeople();
  diagnostics.subscribe('fastify.initialization', collect);
  manager = await startTestManager({
    ...people.settings,
    OSCAR_PAGE_CLIENT_ID: 'page',
    OSCAR_EVENTS_TOKEN: 'token-of-the-store',
  });
  diagnostics.unsubscribe('fastify.initialization', collect);
  await createService('another', 'private');
  for (const visibility of VISIBILITIES) {
    await createService(nameOf(visibility), visibility);
    await createBucket(visibility);
    await submitJob(visibility);
  }
});
after(async () => {
  await manager[Symbol.asyncDispose]();
  await people.issuer.stop();
});

const nameOf = (visibility: Visibility) => `its-${visibility}`;
const bucketOf = (visibility: Visibility) => `bucket-${visibility}`;

const sharing = (visibility: Visibility) => ({
  visibility,
  ...(visibility === 'restricted' && { allowed_users: [BOB.sub] }),
});

const define = (name: string, visibility: Visibility) => ({
  name,
  image: 'busybox',
  script: '#!/bin/sh\ntrue\n',
  ...sharing(visibility),
});

async function createService(name: string, visibility: Visibility): Promise<void> {
  const made = await manager.call('POST', '/system/services', { as: people.alice, body: define(name, visibility) });
  assert.equal(made.status, 201, made.text);
  const { token } = (await manager.call('GET', `/system/services/${name}`, { as: people.alice })).json() as {
    token: string;
  };
  tokens.set(name, `Bearer ${token}`);
}

async function createBucket(visibility: Visibility): Promise<void> {
  const body = { bucket_name: bucketOf(visibility), ...sharing(visibility) };
  const made = await manager.call('POST', '/system/buckets', { as: people.alice, body });
  assert.equal(made.status, 201, made.text);
}

async function submitJob(visibility: Visibility): Promise<void> {
  const job = await manager.call('POST', `/job/${nameOf(visibility)}`, { as: people.alice, body: 'x' });
  assert.equal(job.status, 201, job.text);
  jobs.set(visibility, job.headers.get('x-oscar-job-id') ?? '');
}

/** Creates again what a request has deleted. */
async function restore(route: string, visibility: Visibility): Promise<void> {
  if (route === 'DELETE /system/buckets/:name') await createBucket(visibility);
  if (route === 'DELETE /system/services/:name') await createService(nameOf(visibility), visibility);
  if (/^DELETE \/system\/(services|logs|jobs)\/:name(\/:id)?$/.test(route)) await submitJob(visibility);
}

/** Of a federation that does not exist. */
const FORGED = `6f1c2a4e-0000-4000-8000-000000000001;b/demo;${Date.now()};${'n'.repeat(22)};${'0'.repeat(64)}`;
const FORGED_HEADERS: Record<string, Record<string, string>> = {
  signed: { 'x-oscar-member': FORGED },
  coordinator: { 'x-oscar-federation': FORGED },
};

async function send(route: string, visibility: Visibility, caller: Caller, headers = {}): Promise<number> {
  const [method = '', url = '', constraint = ''] = route.split(' ');
  const isBucket = url.startsWith('/system/buckets');
  const path = url
    .replace(':name', isBucket ? bucketOf(visibility) : nameOf(visibility))
    .replace(':id', jobs.get(visibility) ?? '')
    .replace(':epoch', '1')
    .replace('*', '')
    .replace(/breakdown$/, 'breakdown?group_by=service');
  const as: Record<Caller, string | undefined> = {
    ...people,
    nobody: undefined,
    admin: ADMIN,
    token: tokens.get(nameOf(visibility)),
    'other token': tokens.get('another'),
  };
  const authorization = as[caller];
  const response = await fetch(`${manager.url}${path}`, {
    method,
    redirect: 'manual',
    headers: { ...(authorization !== undefined && { authorization }), ...FORGED_HEADERS[constraint], ...headers },
    ...(!['GET', 'HEAD'].includes(method) && { body: JSON.stringify(bodyFor(url, visibility)) }),
  });
  // Events are an answer without an end.
  await response.body?.cancel();
  return response.status;
}

function bodyFor(url: string, visibility: Visibility): object {
  if (url === '/system/services') return define(nameOf(visibility), visibility);
  if (url === '/system/buckets') return { bucket_name: bucketOf(visibility), ...sharing(visibility) };
  if (url.endsWith('/presign')) return { object_key: 'x', operation: 'download' };
  return {};
}

function isExpected(status: number, expected: string): boolean {
  if (expected === 'open') return status !== 401 && status !== 403;
  return expected.split('/').some((each) => (each === '2xx' ? status >= 200 && status < 300 : status === Number(each)));
}

describe('tenants', () => {
  test('tenants: the table has exactly the routes of the manager', () => {
    assert.deepEqual([...expectations.keys()].toSorted(), routes.toSorted());
    for (const [route, cells] of expectations)
      for (const [, cell] of cells) assert.match(cell, /^(open|[2-4]\S+)$/, route);
  });

  for (const [route, cells] of expectations) {
    test(`tenants: ${route}`, async () => {
      const check = async (visibility: Visibility, caller: Caller) => {
        const expected = cells.get(RELATIONS[visibility][caller]) ?? '';
        const status = await send(route, visibility, caller);
        assert.ok(isExpected(status, expected), `${caller}, ${visibility}: ${status}, not ${expected}`);
        if (status < 300) await restore(route, visibility);
      };
      // What a caller changes is restored before the next one.
      for (const caller of CALLERS) await Promise.all(VISIBILITIES.map((visibility) => check(visibility, caller)));
    });
  }

  test('tenants: what is not there and what is not theirs get one answer, but for those that are fixed', async () => {
    const different: string[] = [];
    for (const route of routes) {
      const [method = '', url = '', constraint = ''] = route.split(' ');
      if (!url.includes(':name') && !(method === 'PUT' && /^\/system\/(services|buckets)$/.test(url))) continue;
      const answer = async (kind: 'private' | 'missing') => {
        const name = url.startsWith('/system/buckets') ? `bucket-${kind}` : `its-${kind}`;
        const path = url
          .replace(':name', name)
          .replace(':id', jobs.get('private') ?? '')
          .replace(':epoch', '1');
        const body = { ...bodyFor(url, 'private'), ...(url.endsWith('buckets') ? { bucket_name: name } : { name }) };
        const response = await fetch(`${manager.url}${path}`, {
          method,
          headers: { authorization: people.bob, ...FORGED_HEADERS[constraint] },
          ...(!['GET', 'HEAD'].includes(method) && { body: JSON.stringify(body) }),
        });
        return `${response.status} ${(await response.text()).replaceAll(name, '<name>')}`;
      };
      if ((await answer('private')) !== (await answer('missing'))) different.push(route);
    }
    assert.deepEqual(different.toSorted(), FIXED_DIFFERENCES);
  });

  test('tenants: a cookie with the token of a service is accepted by no route but the forward authentication', async () => {
    const token = tokens.get(nameOf('public'))?.replace('Bearer ', '');
    const cookie = `oscar_service_${nameOf('public').replaceAll('-', '_')}_auth=${token}`;
    assert.equal(await send('GET /system/services/:name/auth', 'public', 'nobody', { cookie }), 200);
    for (const [route, cells] of expectations) {
      if (route === 'GET /system/services/:name/auth') continue;
      const status = await send(route, 'public', 'nobody', { cookie });
      assert.ok(isExpected(status, cells.get('stranger') ?? ''), `${route}: ${status}`);
    }
  });
});
