import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { embeddedStore, s3Access } from '../transfers/embedded-store.fixture.ts';
import { ORDER_FILES } from './layout.ts';
import { PodUnderTest, STORE, toPodStores } from './pod.fixture.ts';
import { stageIn } from './stage-in.ts';
import { gatedStore } from './store-gate.fixture.ts';

const fromInputs = {
  kind: 'object',
  name: 'a.png',
  from: { store: STORE, bucket: 'inputs', key: 'dir/a.png' },
} as const;

const inputOf = (pod: PodUnderTest, name: string) => readFileSync(join(pod.parts.input, name));
const modeOf = (path: string) => statSync(path).mode & 0o777;

test('stage-in: an object becomes the input, readable and writable for every user', async (t) => {
  const { store, access } = await embeddedStore(t);
  const bytes = Buffer.alloc(300_000, 'x');
  await store.putObject({ bucket: 'inputs', key: 'dir/a.png' }, bytes);
  const pod = new PodUnderTest(t, { input: fromInputs }, toPodStores(access));
  assert.deepEqual(await pod.stageIn(), { code: 0, result: undefined });
  assert.deepEqual(inputOf(pod, 'a.png'), bytes);
  const { input, output, marks, said, own } = pod.parts;
  assert.equal(modeOf(join(input, 'a.png')), 0o666);
  assert.deepEqual([input, output, marks, said, own].map(modeOf), [0o777, 0o777, 0o777, 0o755, 0o700]);
});

test('stage-in: bytes become the input', async (t) => {
  const pod = new PodUnderTest(t, { input: { kind: 'bytes', name: 'event-file-1' } });
  pod.give({}, Buffer.from([0, 255, 10]));
  assert.equal(await stageIn(pod.layout), 0);
  assert.deepEqual(inputOf(pod, 'event-file-1'), Buffer.from([0, 255, 10]));
});

test('stage-in: the content of a URL becomes the input', async (t) => {
  const { store, access } = await embeddedStore(t);
  await store.putObject({ bucket: 'inputs', key: 'shelved' }, Buffer.from('large'));
  const url = store.presign(
    'GET',
    { bucket: 'inputs', key: 'shelved' },
    { expires: 60, endpoint: access.endpoint ?? '' },
  );
  const pod = new PodUnderTest(t, { input: { kind: 'url', name: 'event' } }, { input: new Secret(url) });
  assert.equal(await stageIn(pod.layout), 0);
  assert.equal(inputOf(pod, 'event').toString(), 'large');
});

test('stage-in: without an input there is no file, and a restart changes nothing', async (t) => {
  const pod = new PodUnderTest(t);
  assert.equal(await stageIn(pod.layout), 0);
  assert.equal(await stageIn(pod.layout), 0);
  assert.deepEqual(readdirSync(pod.parts.input), []);
});

const failures: readonly { name: string; message: RegExp; pod: (t: TestContext) => Promise<PodUnderTest> }[] = [
  {
    name: 'an object that does not exist',
    message: /^the input could not be fetched: the input "dir\/a.png" .*: the object does not exist$/,
    pod: async (t) => new PodUnderTest(t, { input: fromInputs }, toPodStores((await embeddedStore(t)).access)),
  },
  {
    name: 'a store without keys',
    message: /there are no keys for the store minio\.default/,
    pod: async (t) => new PodUnderTest(t, { input: fromInputs }),
  },
  {
    name: 'a store that does not exist',
    message: /nothing listens there/,
    pod: async (t) => new PodUnderTest(t, { input: fromInputs }, toPodStores(s3Access(9))),
  },
  {
    name: 'a URL without content',
    message: /the input could not be fetched: it does not exist/,
    pod: async (t) => {
      const { store, access } = await embeddedStore(t);
      const at = { bucket: 'inputs', key: 'gone' };
      const url = store.presign('GET', at, { expires: 60, endpoint: access.endpoint ?? '' });
      return new PodUnderTest(t, { input: { kind: 'url', name: 'x' } }, { input: new Secret(url) });
    },
  },
];

for (const { name, message, pod: make } of failures) {
  test(`stage-in: the termination message reports ${name}`, async (t) => {
    const pod = await make(t);
    assert.equal(await stageIn(pod.layout), 1);
    const result = pod.result();
    assert.deepEqual([result?.outcome, result?.reason, result?.startedAt], ['failed', 'InputFailed', undefined]);
    assert.match(result?.message ?? '', message);
    assert.deepEqual(readdirSync(pod.parts.input), []);
  });
}

test('stage-in: invalid orders are reported without quoting keys', async (t) => {
  const pod = new PodUnderTest(t, { input: fromInputs });
  writeFileSync(join(pod.layout.orders, ORDER_FILES.stores), '{"stores":{"minio.default":{"secretKey":"hush"}}}');
  assert.equal(await stageIn(pod.layout), 1);
  assert.match(pod.result()?.message ?? '', /stores\.json of this pod is invalid/);
  assert.doesNotMatch(readFileSync(pod.layout.termination, 'utf8'), /hush/);
  writeFileSync(
    join(pod.layout.orders, ORDER_FILES.orders),
    '{"attempt":"try-1","input":{"kind":"bytes","name":"../x"}}',
  );
  assert.equal(await stageIn(pod.layout), 1);
  assert.equal(pod.result()?.reason, 'StartFailed');
  assert.match(pod.result()?.message ?? '', /input is not/);
});

test('stage-in: it waits for renewed keys if they have expired', async (t) => {
  const gate = await gatedStore(t);
  await gate.store.putObject({ bucket: 'inputs', key: 'dir/a.png' }, Buffer.from('x'));
  const old = toPodStores({ ...gate.access, accessKey: new Secret('a-key-that-nobody-knows') });
  const pod = new PodUnderTest(t, { input: fromInputs }, old);
  const staging = stageIn(pod.layout);
  await eventually(() => assert.equal(gate.asked.length, 1));
  pod.give(toPodStores(gate.access));
  assert.equal(await staging, 0);
  assert.equal(inputOf(pod, 'a.png').toString(), 'x');
});

test('stage-in: it waits for renewed keys no longer than the orders allow', async (t) => {
  const { access } = await embeddedStore(t);
  const old = toPodStores({ ...access, accessKey: new Secret('a-key-that-nobody-knows') });
  const pod = new PodUnderTest(t, { input: fromInputs, keyPatience: 20 }, old);
  assert.equal(await stageIn(pod.layout), 1);
  assert.match(pod.result()?.message ?? '', /the store does not know the access key/);
});

test('stage-in: a rejected URL is retried when there is a new one', async (t) => {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? '');
    response.writeHead(request.url === '/new' ? 200 : 403).end('content');
  }).listen(0, '127.0.0.1');
  t.after(() => server.close());
  await eventually(() => assert.ok(server.listening));
  const at = (path: string) => new Secret(`http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`);
  const pod = new PodUnderTest(t, { input: { kind: 'url', name: 'x' } }, { input: at('/old') });
  const staging = stageIn(pod.layout);
  await eventually(() => assert.deepEqual(asked, ['/old']));
  pod.give({ input: at('/new') });
  assert.equal(await staging, 0);
  assert.deepEqual(asked, ['/old', '/new']);
  assert.equal(inputOf(pod, 'x').toString(), 'content');
});
