import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { everyBucket } from '../../../buckets/index.ts';
import { Secret } from '../../../lib/secret.ts';
import { readStorageEvents } from '../../../model/job/index.ts';
import { aService } from '../../../model/service/service.fixture.ts';
import { describeObjectStore } from '../../../ports/conformance/object-store.conformance.ts';
import {
  bucket,
  type StoreUnderTest,
  storeClient,
} from '../../../ports/conformance/object-store-under-test.fixture.ts';
import { openObjectStore } from '../../../s3-server/index.ts';
import { provisionStorage } from '../../../services/index.ts';
import { PlainS3Store, type PlainS3StoreOptions } from './plain-s3-store.ts';

/** The embedded server over HTTP, used as a plain S3 store. */
describeObjectStore(
  'a store with S3 alone, and another name for staging',
  () => open({ stagingBucket: 'oscar-staging-b' }),
  {
    users: 'it has no way to make users',
    quotas: 'S3 has no quotas',
    'job keys': 'its operator gets no sessions',
  },
);

const OPERATOR = { accessKey: new Secret('operator'), secretKey: new Secret('operator-secret') };

test('buckets: a bucket that the manager did not create belongs to the administrator, and users do not see it', async (t) => {
  const { store, client, server } = await scene(t);
  await server.createBucket({ name: 'of-operator', owner: 'somebody' });
  await client.put('of-operator', 'k', 'hello');
  assert.deepEqual(await store.bucket('of-operator'), {
    ...bucket('of-operator', { owner: 'cluster_admin', ownerName: 'oscar' }),
    usage: { bytes: 5, objects: 1 },
  });
  const taken = await store.createBucket(bucket('of-operator', { visibility: 'public' }));
  assert.ok(taken !== 'created');
  assert.equal(taken.exists.owner, 'cluster_admin');
  const names = async (query: object) => (await Array.fromAsync(everyBucket(store, query))).map(({ name }) => name);
  assert.deepEqual(await names({}), ['of-operator']);
  assert.deepEqual(await names({ visibleTo: 'alice' }), []);
});

test('buckets: a bucket that was removed in the store directly is gone, and its name is free', async (t) => {
  const { store, server } = await scene(t);
  await store.createBucket(bucket('gone-b', { madeFor: { uid: 'u1', service: 's' } }));
  await server.deleteBucket('gone-b', { withContent: true });
  assert.equal(await store.bucket('gone-b'), undefined);
  assert.deepEqual((await store.buckets({ madeFor: 'u1' })).items, []);
  assert.equal(await store.createBucket(bucket('gone-b', { owner: 'bob' })), 'created');
  assert.equal((await store.bucket('gone-b'))?.owner, 'bob');
});

test('job keys: without STS a service with inputs is rejected with the reason, and nothing is created', async (t) => {
  const { store } = await scene(t);
  const input = [{ storage_provider: 'minio.default', path: 'needs-keys/in' }];
  await assert.rejects(provisionStorage(aService({ name: 'cow', input }, { owner: 'alice' }), store), {
    code: 'no-job-keys',
    message: /AssumeRole: 403 AccessDenied.*"cow" cannot have input or output there/,
  });
  assert.equal(await store.bucket('needs-keys'), undefined);
  await provisionStorage(aService({ name: 'dog' }, { owner: 'alice' }), store);
});

test('create: a bucket that could not be completed is removed', async (t) => {
  const { store, server, client, front } = await scene(t);
  front.refused = (method, path) => method === 'PUT' && path.includes('.buckets/half-b');
  await assert.rejects(store.createBucket(bucket('half-b', { owner: 'bob' })), { code: 'unavailable' });
  assert.equal(server.describeBucket('half-b'), undefined);
  const claim = `.claims/${hash('sha256', 'bucket/half-b')}`;
  await assert.rejects(client.head('oscar-staging', claim), { name: 'NotFound' }, 'the lock is released');
});

test('create: a bucket that could be neither completed nor removed is completed later', async (t) => {
  const reported: string[] = [];
  const report = (problem: unknown, what: string) => void reported.push(`${what}: ${String(problem)}`);
  const { store, front } = await scene(t, { lease: 5_000, report });
  front.refused = (method, path) =>
    `${method} ${path}` === 'DELETE /half-b' || (method === 'PUT' && path.includes('.buckets/'));
  await assert.rejects(store.createBucket(bucket('half-b', { owner: 'bob' })), { code: 'unavailable' });
  assert.match(
    reported.join(),
    /"half-b" could not be created completely, nor removed.*: StoreError: .*cannot be used now/,
  );
  front.refused = () => false;
  assert.equal((await store.bucket('half-b'))?.owner, 'bob', 'not the administrator’s, though there was no record');
});

test('remove: a bucket is removed although objects are still written to it', async (t) => {
  const { store, client, front } = await scene(t);
  await store.createBucket(bucket('busy-b'));
  let late = 2;
  front.before = async (method, path) => {
    if (method === 'DELETE' && path === '/busy-b' && late-- > 0) await client.put('busy-b', `late-${late}`);
  };
  await store.removeBucket('busy-b');
  assert.equal(await store.bucket('busy-b'), undefined);
});

test('events: targets that the store rejects are reported as missing, and no rule is created for them', async (t) => {
  const { store, server, front } = await scene(t, { targets: ['arn:minio:sqs::NO:webhook'] });
  front.refused = isRules;
  front.status = 400;
  assert.deepEqual(await store.missingTargets(), ['arn:minio:sqs::NO:webhook']);
  await store.createBucket(bucket('late-b'));
  await store.subscribe({ bucket: 'late-b', prefix: 'in/', subscriber: 'u1' });
  assert.deepEqual(server.listRules('late-b'), []);
});

test('events: a store without notification rules has all targets missing, and still works', async (t) => {
  const { store, front } = await scene(t);
  front.refused = (_method, path) => path.includes('notification');
  Object.assign(front, { status: 501, word: 'NotImplemented' });
  assert.deepEqual(await store.missingTargets(), ['arn:minio:sqs:us-east-1:OSCAR:webhook']);
  await store.createBucket(bucket('mute-b'));
  await store.subscribe({ bucket: 'mute-b', prefix: 'in/', subscriber: 'u1' });
  await store.unsubscribe({ bucket: 'mute-b', prefix: 'in/', subscriber: 'u1' });
});

test('events: a target that the store no longer accepts removes the rule, but subscribing succeeds', async (t) => {
  const reported: string[] = [];
  const { store, server, front } = await scene(t, { report: (_problem, what) => void reported.push(what) });
  await store.createBucket(bucket('lost-b'));
  await store.subscribe({ bucket: 'lost-b', prefix: 'in/', subscriber: 'u1' });
  assert.equal(server.listRules('lost-b').length, 1);
  // A store that was restarted without the target accepts rules, but none for this target.
  front.refused = (method, path, body) => isRules(method, path) && body.includes('<Queue>');
  Object.assign(front, { status: 400, word: 'InvalidArgument' });
  await store.subscribe({ bucket: 'lost-b', prefix: 'more/', subscriber: 'u1' });
  assert.deepEqual(server.listRules('lost-b'), [], 'the old rule has no target, and would block new rules');
  assert.deepEqual(await store.missingTargets(), ['arn:minio:sqs:us-east-1:OSCAR:webhook']);
  assert.deepEqual(reported, []);
});

test('events: rules that the store rejects because of other rules are reported, and subscribing succeeds', async (t) => {
  const reported: string[] = [];
  const { store, front } = await scene(t, { report: (_problem, what) => void reported.push(what) });
  await store.createBucket(bucket('odd-b'));
  front.refused = (method, path) => isRules(method, path) && path.includes('odd-b');
  Object.assign(front, { status: 400, word: 'InvalidArgument' });
  await store.subscribe({ bucket: 'odd-b', prefix: 'in/', subscriber: 'u1' });
  assert.match(reported.join(), /rejects the event rules of the bucket "odd-b", so new objects are found late/);
  front.status = 503;
  await assert.rejects(store.subscribe({ bucket: 'odd-b', prefix: 'in/', subscriber: 'u1' }), { code: 'unavailable' });
});

test('events: existing rules are not written again, in any order', async (t) => {
  const { store, front } = await scene(t);
  await store.createBucket(bucket('two-b'));
  const both = ['in/', 'more/'].map((prefix) => ({ bucket: 'two-b', prefix, subscriber: 'u1' }));
  for (const each of both) await store.subscribe(each);
  front.refused = isRules;
  for (const each of both) await store.subscribe(each);
});

test('events: without targets the store gets no requests about events', async (t) => {
  const { store, front } = await scene(t, { targets: [] });
  await store.createBucket(bucket('quiet-b'));
  const subscription = { bucket: 'quiet-b', prefix: 'in/', subscriber: 'u1' };
  await store.subscribe(subscription);
  await store.unsubscribe(subscription);
  assert.deepEqual(await store.missingTargets(), []);
  assert.ok(!front.asked.some((path) => path.includes('notification')));
});

const isRules = (method: string, path: string) => method === 'PUT' && path.includes('notification');

const STAGED = { bucket: 'oscar-staging', key: 'svc/job-1/1/files/b' };

/** Places an object as `out-b/a/b` in a store that answers the copy with this error. */
async function placed(t: TestContext, status: number, word: string, times = Infinity) {
  const { store, client, front } = await scene(t);
  await store.ensureStaging();
  await store.createBucket(bucket('out-b'));
  const { ETag = '' } = await client.put(STAGED.bucket, STAGED.key, 'B');
  let left = times;
  front.refused = (method, path) => method === 'PUT' && path === '/out-b/a/b' && left-- > 0;
  Object.assign(front, { status, word });
  const by = { mark: 'job-1/1', as: 'alice' };
  return store.place({ ...STAGED, eTag: ETag.replaceAll('"', '') }, { bucket: 'out-b', key: 'a/b' }, by);
}

for (const [status, word] of [
  [400, 'XMinioParentIsObject'],
  [400, 'XMinioInvalidObjectName'],
  [403, 'AccessDenied'],
  [405, 'MethodNotAllowed'],
  [501, 'NotImplemented'],
] as const) {
  test(`place: ${word} for a copy is a permanent refusal`, async (t) => {
    assert.deepEqual(await placed(t, status, word), { refused: `the store answered ${status} (${word})` });
  });
}

for (const [status, word] of [
  [403, 'InvalidAccessKeyId'],
  [403, 'RequestTimeTooSkewed'],
  [409, 'OperationAborted'],
  [429, 'TooManyRequests'],
  [503, 'SlowDown'],
] as const) {
  test(`place: ${word} for a copy can be retried`, async (t) => {
    await assert.rejects(placed(t, status, word), { code: 'unavailable' });
  });
}

test('place: the first AccessDenied is retried once', async (t) => {
  assert.equal(await placed(t, 403, 'AccessDenied', 1), 'placed');
});

/** A proxy in front of the server that records all requests and rejects some. */
class Front {
  readonly asked: string[] = [];
  refused: (method: string, path: string, body: string) => boolean = () => false;
  status = 503;
  word = '';
  before: ((method: string, path: string) => Promise<void>) | undefined;
  readonly #server: http.Server;

  constructor(port: number) {
    this.#server = http.createServer((request, response) => void this.#pass(request, response, port));
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

  async #pass(request: http.IncomingMessage, response: http.ServerResponse, port: number): Promise<void> {
    const { method = '', url: path = '', headers } = request;
    this.asked.push(path);
    const body = await buffer(request);
    if (this.refused(method, path, body.toString())) {
      return void response.writeHead(this.status).end(this.word && `<Error><Code>${this.word}</Code></Error>`);
    }
    await this.before?.(method, path);
    const passed = http.request({ host: '127.0.0.1', port, method, path, headers });
    passed.end(body);
    const [answer] = (await once(passed, 'response')) as [http.IncomingMessage];
    response.writeHead(answer.statusCode ?? 500, answer.headers);
    answer.pipe(response);
  }
}

async function scene(t: TestContext, options: Partial<PlainS3StoreOptions> = {}) {
  const under = await open(options);
  t.after(() => under.close());
  return { ...under, client: storeClient({ endpoint: under.direct, region: under.region }, OPERATOR) };
}

async function open(options: Partial<PlainS3StoreOptions> = {}) {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-plain-'));
  const manager = { accessKey: OPERATOR.accessKey.reveal(), secret: OPERATOR.secretKey };
  const seal = {
    seal: (text: string) => Buffer.from(text),
    open: (bytes: Uint8Array) => Buffer.from(bytes).toString(),
  };
  const region = 'us-east-1';
  const server = openObjectStore({ directory, region, manager, seal });
  const { port } = await server.listen({ host: '127.0.0.1', port: 0 });
  const front = new Front(port);
  const endpoint = await front.listen();
  const store = new PlainS3Store({
    endpoint,
    publicEndpoint: endpoint,
    region,
    verify: true,
    keys: OPERATOR,
    managerName: 'oscar',
    targets: ['arn:minio:sqs:us-east-1:OSCAR:webhook'],
    ...options,
  });
  return {
    store,
    server,
    front,
    endpoint,
    direct: `http://127.0.0.1:${port}`,
    region,
    operator: OPERATOR,
    writesAs: OPERATOR.accessKey.reveal(),
    async reported(name: string) {
      const events = server.takeEvents(1000).flatMap(({ event }) => readStorageEvents(JSON.parse(event)));
      return events.filter((event) => event.bucket === name).map(({ key, principal = '' }) => ({ key, principal }));
    },
    async close() {
      store.close();
      front.close();
      await server.close();
      rmSync(directory, { recursive: true, force: true });
    },
  } satisfies StoreUnderTest & Record<string, unknown>;
}
