import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { Secret } from '../../src/lib/secret.ts';
import { startStore, type TestStore } from '../objectstore/start-store.ts';
import { copying } from '../support/delegation.ts';
import { expectStatus } from '../support/federation.ts';
import { ALICE } from '../support/issuer-users.ts';
import { Outside, reasonOf, service } from '../support/jobs.ts';
import { type Answer, startTestManager, type TestManager } from '../support/manager.ts';
import { type People, startPeople } from '../support/people.ts';

/** The address of this machine for scripts. Scripts in pods need another one than 127.0.0.1 (see test/kubernetes). */
const HOST = process.env['OSCAR_TEST_HOST'] ?? '127.0.0.1';

const KEY = 'the secret key that alice has at the store of the Go cluster';

/** A Go manager: the part that a worker sends requests to (docs/go-manager.md#federation-and-delegation). */
class GoManager {
  readonly asked: string[] = [];
  readonly #server: http.Server;

  constructor(config: (authorization: string) => object | undefined) {
    this.#server = http.createServer(({ method, url, headers }, response) => {
      this.asked.push(`${method} ${url} ${headers.authorization ?? ''}`);
      const answer = url === '/system/config' ? config(headers.authorization ?? '') : undefined;
      response.writeHead(answer ? 200 : 401, { 'content-type': 'application/json' });
      response.end(answer && JSON.stringify(answer));
    });
  }

  async listen(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}

let people: People;
let store: TestStore;
let manager: TestManager;
let outside: Outside;
let bystanderAt: string;
const go = new GoManager((authorization) =>
  authorization === people.alice
    ? {
        config: {},
        minio_provider: {
          // An address that resolves only in the Go cluster.
          endpoint: 'http://minio.minio.svc.cluster.local:9000',
          verify: true,
          access_key: ALICE.sub,
          secret_key: KEY,
          region: 'us-east-1',
        },
      }
    : undefined,
);
const bystander = new GoManager(() => ({ minio_provider: {} }));

before(async () => {
  people = await startPeople();
  store = await startStore({}, HOST);
  await store.store.putUser(ALICE.sub, new Secret(KEY));
  await store.store.createBucket({ name: 'cow', owner: ALICE.sub });
  await store.store.createBucket({ name: 'of-others', owner: 'somebody' });
  bystanderAt = await bystander.listen();
  const clusters = {
    'go-cluster': { endpoint: await go.listen(), store: store.endpoint, kind: 'upstream' },
    'our-kind': { endpoint: bystanderAt },
  };
  manager = await startTestManager({
    ...people.settings,
    OSCAR_CLUSTERS: JSON.stringify(clusters),
    OSCAR_PEER_NETWORKS: `127.0.0.0/8,${HOST}/32`,
  });
  outside = new Outside(manager.url);
});
after(async () => {
  await manager[Symbol.asyncDispose]();
  await store[Symbol.asyncDispose]();
  await people.issuer.stop();
  go.close();
  bystander.close();
});

/** What a Go manager sends when a file was written to its MinIO (docs/go-manager.md#federation-and-delegation). */
const passedOn = (bucket: string, key: string) => ({
  storage_provider: 'minio.default',
  event: JSON.stringify({
    Records: [
      { eventSource: 'minio:s3', eventName: 's3:ObjectCreated:Put', s3: { bucket: { name: bucket }, object: { key } } },
    ],
  }),
});

const newId = () => `cow-${randomUUID()}`;

function delegate(as: string, name: string, id: string, body: object, from = 'go-cluster'): Promise<Answer> {
  const headers = { 'x-delegated-job-id': id, 'x-delegated-from': from };
  return manager.call('POST', `/job/${name}`, { as, body, headers });
}

/** A worker whose outputs are in a bucket of the origin. */
const worker = (name: string, script: string, more: Record<string, unknown> = {}) =>
  service(name, script, { input: [], output: [{ storage_provider: 'minio.default', path: 'cow/out' }], ...more });

const textOf = async (bucket: string, key: string) =>
  Buffer.concat(await store.store.readObject({ bucket, key }).stream.toArray()).toString();

describe('from registered Go: a job of a Go manager in OSCAR_CLUSTERS', () => {
  test('from registered Go: the job reads and writes at the store of its origin, with keys that only staging has', async () => {
    await outside.create(people.alice, worker('calf', `env; ${copying('.done')}`));
    await store.store.putObject({ bucket: 'cow', key: 'in/a.txt' }, Buffer.from('moo'));
    const id = newId();
    for (let n = 0; n < 2; n++) {
      expectStatus(await delegate(people.alice, 'calf', id, passedOn('cow', 'in/a.txt')), 201);
    }
    const job = await outside.ended('calf', id, people.alice);
    assert.deepEqual([job.state, reasonOf(job)], ['succeeded', 'Completed'], job.message);
    assert.equal(await textOf('cow', 'out/a.txt.done'), 'moo');
    assert.deepEqual(go.asked, [`GET /system/config ${people.alice}`], 'one request, however often the job was sent');

    const log = expectStatus(await manager.call('GET', `/system/logs/calf/${id}`, { as: people.alice }), 200);
    const record = expectStatus(await manager.call('GET', `/system/jobs/calf/${id}`, { as: people.alice }), 200);
    for (const text of [log.text, record.text, JSON.stringify(manager.log)]) assert.ok(!text.includes(KEY));
    const local = { as: people.alice };
    const { text } = await manager.call('GET', '/system/buckets/cow', local);
    assert.ok(!text.includes('a.txt'), 'nothing was written to the bucket of that name here');
  });

  test('from registered Go: rejected, and no job is created, if the keys of the caller cannot read the file', async () => {
    await outside.create(people.alice, worker('picky', copying()));
    const calls = [
      delegate(people.alice, 'picky', newId(), passedOn('cow', 'in/none')),
      delegate(people.alice, 'picky', newId(), passedOn('of-others', 'x')),
    ];
    for (const call of calls) assert.match(expectStatus(await call, 424).text, /cannot be read: /);
    assert.equal((await outside.jobs(people.alice, 'picky')).length, 0);
  });

  test('from registered Go: rejected if the Go manager returns no keys, and for the token of a service', async () => {
    const token = await outside.create(people.alice, worker('open', copying(), { visibility: 'public' }));
    const byBob = expectStatus(await delegate(people.bob, 'open', newId(), passedOn('cow', 'in/a.txt')), 424);
    assert.match(byBob.text, /cluster "go-cluster" answered 401/);
    const asked = go.asked.length;
    const byToken = expectStatus(await delegate(token, 'open', newId(), passedOn('cow', 'in/a.txt')), 424);
    assert.match(byToken.text, /with an access token of its user/);
    assert.equal(go.asked.length, asked);
  });
});

for (const from of ['somewhere', 'our-kind']) {
  test(`from Go: a job from "${from}" is an ordinary job, and the token of its caller is sent nowhere (F32)`, async () => {
    const clusters = { somewhere: { endpoint: bystanderAt } };
    const output = [{ storage_provider: 'minio.default', path: `plain-${from}/out` }];
    await outside.create(people.alice, worker(`plain-${from}`, copying(), { clusters, output }));
    const id = newId();
    const event = { storage_provider: from, event: '{"a":1}' };
    expectStatus(await delegate(people.alice, `plain-${from}`, id, event, from), 201);
    assert.equal((await outside.ended(`plain-${from}`, id, people.alice)).state, 'succeeded');
    assert.deepEqual(bystander.asked, []);
  });
}
