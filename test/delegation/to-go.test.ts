import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { delegatingBody, endedWell, inState, placeOf } from '../support/delegation.ts';
import { create, expectStatus, type TestCluster } from '../support/federation.ts';
import { startIssuer } from '../support/issuer.ts';
import { ALICE } from '../support/issuer-users.ts';
import { eventually, Outside } from '../support/jobs.ts';
import { ADMIN, PASSWORD, startTestManager } from '../support/manager.ts';
import { type People, startPeople } from '../support/people.ts';
import { type Seen, startWire, type Wire } from '../support/wire.ts';

const GO = { id: 'go-cluster' };

/** A Go manager: the part that a coordinator uses of a member (docs/go-manager.md). */
class GoManager {
  readonly services = new Map<string, Record<string, unknown>>();
  readonly jobs = new Map<string, { status: string }>();

  reply({ method, path, headers, body }: Seen): { status: number; json?: unknown; text?: string } {
    if (subjectOf(headers.authorization) !== ALICE.sub) return { status: 401 };
    const [, system, resource, name = '', job] = new URL(path, 'http://x').pathname.split('/');
    if (system === 'job') {
      const id = String(headers['x-delegated-job-id']);
      if (this.jobs.has(id)) return { status: 500 };
      this.jobs.set(id, { status: 'Running' });
      return { status: 201 };
    }
    if (resource === 'status') return { status: 200, json: STATUS };
    if (resource === 'logs') return this.#log(method, job);
    if (method === 'POST' || method === 'PUT') {
      const given = JSON.parse(body) as { name: string };
      this.services.set(given.name, given);
      return { status: method === 'POST' ? 201 : 204 };
    }
    const service = this.services.get(name);
    if (!service) return { status: 404 };
    if (method === 'DELETE') this.services.delete(name);
    return method === 'DELETE' ? { status: 204 } : { status: 200, json: service };
  }

  #log(method: string, job: string | undefined) {
    if (job === undefined) return { status: 200, json: { jobs: Object.fromEntries(this.jobs) } };
    if (method === 'DELETE') return { status: this.jobs.delete(job) ? 204 : 404 };
    return this.jobs.has(job) ? { status: 200, text: `said by ${job}\n` } : { status: 500 };
  }
}

const STATUS = {
  cluster: {
    nodes_count: 1,
    nodes: [
      {
        name: 'one',
        cpu: { capacity_cores: 64_000 },
        memory: { capacity_bytes: 2 ** 36 },
        gpu: 0,
        is_interlink: false,
        status: 'Ready',
        conditions: [],
      },
    ],
  },
};

/** The subject of a bearer token; undefined for anything else. */
function subjectOf(authorization = ''): unknown {
  const payload = /^Bearer [^.]+\.([^.]+)\.[^.]+$/.exec(authorization)?.[1];
  return payload === undefined ? undefined : JSON.parse(Buffer.from(payload, 'base64url').toString())['sub'];
}

const opened = new AsyncDisposableStack();
const go = new GoManager();
let people: People;
let wire: Wire;
let origin: TestCluster;

before(async () => {
  people = await startPeople();
  opened.defer(() => people.issuer.stop());
  wire = opened.use(await startWire());
  wire.interfere((seen, response) => {
    const { status, json, text } = go.reply(seen);
    if (json !== undefined) response.setHeader('content-type', 'application/json; charset=utf-8');
    response.writeHead(status).end(json === undefined ? text : JSON.stringify(json));
  });
  const manager = opened.use(
    await startTestManager({
      ...people.settings,
      OIDC_CLIENT_ID: 'oscar',
      OSCAR_CLUSTERS: JSON.stringify({ [GO.id]: { endpoint: wire.url, kind: 'upstream' } }),
    }),
  );
  const outside = new Outside(manager.url);
  const call: TestCluster['call'] = (...request) => manager.call(...request);
  origin = { id: 'oscar-cluster', manager, wire, outside, admin: ADMIN, password: PASSWORD, call };
});
after(() => opened.disposeAsync());

/** Creates a federated service with this name, and a job that the Go manager has. Resolves to the job's id. */
async function delegated(name: string): Promise<string> {
  const { refreshToken } = await people.issuer.tokensFor(ALICE);
  const members = [{ type: 'oscar', cluster_id: GO.id, service_name: name }];
  await create(origin, people.alice, delegatingBody(name, members, refreshToken, { script: 'true' }));
  const id = await origin.outside.submit(people.alice, name, 'x');
  await inState(origin, people.alice, name, id, 'delegated');
  return id;
}

describe('to Go: a job at a Go manager', () => {
  test('to Go: cancelling the job at the origin ends it at the Go manager', async () => {
    const id = await delegated('ended');
    assert.ok(go.jobs.has(id));
    expectStatus(await origin.call('DELETE', `/system/jobs/ended/${id}`, { as: people.alice }), 202);
    await inState(origin, people.alice, 'ended', id, 'cancelled');
    await eventually(() => assert.ok(!go.jobs.has(id)));
  });

  test('to Go: the definition of the worker names the store of the origin', async () => {
    await delegated('found');
    const worker = go.services.get('found') as Record<string, Record<string, unknown>>;
    const { annotations = {}, clusters = {}, storage_providers: providers = {}, federation = {} } = worker;
    assert.equal(annotations['oscar.grycap/origin-cluster'], 'oscar-cluster');
    assert.equal(annotations['oscar.grycap/origin-service'], 'found');
    assert.equal((clusters['oscar-cluster'] as { endpoint: string }).endpoint, origin.manager.url);
    const { default: store } = providers['minio'] as { default: { endpoint: string } };
    assert.match(store.endpoint, /^http:/);
    assert.deepEqual([federation['topology'], federation['members']], ['mesh', undefined]);
  });

  for (const query of ['', '?follow=true']) {
    test(`to Go: the log is read from the Go manager${query && ', also with follow'}`, async () => {
      const name = query === '' ? 'read' : 'followed';
      const id = await delegated(name);
      const log = await origin.call('GET', `/system/logs/${name}/${id}${query}`, { as: people.alice });
      assert.equal(expectStatus(log, 200).text, `said by ${id}\n`);
    });
  }
});

describe('to Go: the token of the owner', () => {
  const conditions = async (name: string) => {
    const path = `/system/federation/${name}?include=status`;
    const { json } = expectStatus(await origin.call('GET', path, { as: people.alice }), 200);
    return (json() as { conditions?: { type: string; reason: string }[] }).conditions ?? [];
  };

  for (const [what, token] of [
    ['a text that is not a token', 'dummy-token'],
    ['a JWT of an unknown issuer', 'eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwOi8vMTI3LjAuMC4xOjEiLCJhenAiOjV9.'],
  ] as const) {
    test(`to Go: with ${what}, jobs stay at the origin (F9)`, async () => {
      const name = token === 'dummy-token' ? 'dummy' : 'forged';
      const members = [{ type: 'oscar', cluster_id: GO.id, service_name: name }];
      const refused = delegatingBody(name, members, token, { script: 'true' });
      expectStatus(await origin.call('POST', '/system/services', { as: people.alice, body: refused }), 400);
      // Without members any text is stored, and members are added to such a service.
      await create(origin, people.alice, delegatingBody(name, [], token, { script: 'true' }));
      const added = await origin.call('POST', `/system/federation/${name}`, { as: people.alice, body: { members } });
      expectStatus(added, 200);
      for (const body of ['one', 'two']) {
        const job = await endedWell(origin, people.alice, name, await origin.outside.submit(people.alice, name, body));
        assert.equal(placeOf(job), origin.id);
        assert.match(job.decisions.at(-1)?.candidates.find(({ refusal }) => refusal)?.refusal ?? '', /token/);
        assert.ok(!go.jobs.has(job.id));
      }
      const [condition] = await conditions(name);
      assert.equal(condition?.type, 'CredentialsExpired');
      assert.match(condition.reason, /its issuer refuses the refresh token .*: send a new refresh token$/);
      expectStatus(await origin.call('GET', '/health'), 200);
    });
  }

  test('to Go: if the issuer cannot narrow it, the federation says so', async () => {
    await delegated('wide');
    const condition = (await conditions('wide')).find(({ type }) => type === 'TokenNotNarrowed');
    assert.match(condition?.reason ?? '', /^"go-cluster" gets access tokens that are valid elsewhere too: .*RFC 8693/);
    assert.equal(audienceOf('wide'), 'oscar');
  });

  test('to Go: is valid at the Go manager alone if the issuer can narrow it', async () => {
    const able = opened.use(await startIssuer({ exchangeAudiences: [GO.id] }));
    const alice = await able.tokensFor(ALICE);
    const clusters = JSON.stringify({ [GO.id]: { endpoint: wire.url, kind: 'upstream' } });
    const issuer = { ...people.settings, OIDC_ISSUERS: able.url, OIDC_CLIENT_ID: 'oscar', OSCAR_CLUSTERS: clusters };
    const manager = opened.use(await startTestManager(issuer));
    const as = `Bearer ${alice.accessToken}`;
    const members = [{ type: 'oscar', cluster_id: GO.id, service_name: 'narrow' }];
    const body = delegatingBody('narrow', members, alice.refreshToken, { script: 'true' });
    expectStatus(await manager.call('POST', '/system/services', { as, body }), 201);
    const id = await new Outside(manager.url).submit(as, 'narrow', 'x');
    await eventually(() => assert.ok(go.jobs.has(id)));
    assert.equal(audienceOf('narrow'), GO.id);
    const { json } = await manager.call('GET', '/system/federation/narrow?include=status', { as });
    assert.deepEqual((json() as { conditions?: object[] }).conditions, []);
  });

  /** The audience of the token that an offer to this service had. */
  function audienceOf(name: string): unknown {
    const { headers } = wire.seen.find(({ path }) => path === `/job/${name}`) ?? assert.fail('there was no offer');
    return JSON.parse(Buffer.from(headers.authorization?.split('.')[1] ?? '', 'base64url').toString())['aud'];
  }
});
