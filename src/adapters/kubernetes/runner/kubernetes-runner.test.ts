import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { Secret } from '../../../lib/secret.ts';
import type { Attempt } from '../../../model/job/index.ts';
import { eventually } from '../../../ports/conformance/eventually.ts';
import { type BlobStore, StoreError } from '../../../ports/index.ts';
import { ApiError } from '../client/api-error.ts';
import { JOB, SECRET, type SecretObject, type Stored } from '../client/kinds.ts';
import { jobObjectName } from '../objects/labels.ts';
import { RECORD } from '../stores/job-object.ts';
import { toAttemptSecret } from './attempt-secret.ts';
import { FakeApi } from './fake-api.fixture.ts';
import { createKubernetesRunner } from './index.ts';
import { NO_KEYS } from './keys.ts';
import { endNote, withAnnotations } from './notes.ts';
import { outcomeOfUnstarted } from './outcome.ts';
import { POD, type Pod } from './pod.ts';
import { podWith, ATTEMPT as SAMPLE, SETTINGS, terminated } from './pods.fixture.ts';

const KIB = 1024;
const bytes = (count: number) => ({ kind: 'bytes', name: 'in', bytes: Buffer.alloc(count * KIB) }) as const;

function scene(t: TestContext) {
  const server = new FakeApi();
  const problems: unknown[] = [];
  const shelved = new Map<string, Uint8Array>();
  const blobs = {
    put: async (key: string, value: Uint8Array) => void shelved.set(key, value),
    remove: async (prefix: string) => {
      for (const key of shelved.keys()) if (key.startsWith(prefix)) shelved.delete(key);
    },
    urlToGet: async (key: string) => `https://blobs/${key}`,
    urlToPut: async (key: string) => `https://blobs/${key}`,
  } as unknown as BlobStore;
  const runner = createKubernetesRunner({
    api: server.api,
    ...SETTINGS,
    blobs,
    namespace: 'ns',
    keyMs: 3_600_000,
    watch: { watchMs: 60_000, silenceMs: 60_000 },
    report: (problem) => void problems.push(problem),
  });
  t.after(() => runner.close());
  return { runner, server, problems, shelved };
}

/** The entries of the attempt's Secret. */
const given = (server: FakeApi) => {
  const [secret] = server.all('secrets') as Stored<SecretObject>[];
  return Object.entries(secret?.data ?? {}).map(
    ([name, value]) => [name, Buffer.from(value, 'base64').length] as const,
  );
};

const LARGE: { name: string; attempt: Partial<Attempt>; shelved: boolean }[] = [
  { name: 'a large input', attempt: { input: bytes(513) }, shelved: true },
  {
    name: 'an input beside a large script',
    attempt: { script: 'y'.repeat(600 * KIB), input: bytes(500) },
    shelved: true,
  },
  {
    name: 'an input beside large secrets',
    attempt: { environment: { A: new Secret('y'.repeat(600 * KIB)) }, input: bytes(400) },
    shelved: true,
  },
  {
    name: 'an input beside a long event',
    attempt: { script: 'y'.repeat(500 * KIB), environment: { EVENT: "'".repeat(64 * KIB) }, input: bytes(200) },
    shelved: true,
  },
  {
    name: 'an input for which there is room',
    attempt: { script: 'y'.repeat(300 * KIB), input: bytes(500) },
    shelved: false,
  },
];

for (const { name, attempt, shelved: expected } of LARGE) {
  test(`${name} lies ${expected ? 'on the blobs' : 'in the Secret'}, and the Secret is no larger than may be`, async (t) => {
    const { runner, server, shelved } = scene(t);
    await runner.start({ ...SAMPLE, ...attempt });
    const entries = given(server);
    assert.ok(entries.reduce((sum, [, size]) => sum + size, 0) <= 1024 * KIB);
    assert.deepEqual(
      [shelved.has('attempts/ns/cows-1/input'), entries.some(([key]) => key === 'input')],
      [expected, !expected],
    );
  });
}

test('runner: an attempt that does not fit into a Secret is not started, and the error says which part is how large', async (t) => {
  const { runner, server, shelved } = scene(t);
  const environment = { A: new Secret('y'.repeat(500 * KIB)) };
  await assert.rejects(runner.start({ ...SAMPLE, script: 'y'.repeat(600 * KIB), environment, input: bytes(10) }), {
    code: 'too-large',
    message: /1024 KiB in one Secret: the script has 600 KiB, secrets and large variables have 500 KiB/,
  });
  assert.deepEqual([server.writes, [...shelved.keys()]], [[], []]);
});

const FOREVER = [
  { status: 422, message: 'Secret "cows-1" is invalid: data: Too long' },
  { status: 413, message: 'Request entity too large' },
  { status: 403, message: 'admission webhook "policy" denied the request: no' },
];

for (const { status, message } of FOREVER) {
  test(`runner: a final rejection by the API server (${status}) is not retried`, async (t) => {
    const { runner, server, shelved } = scene(t);
    server.refusal = () => new ApiError(status, { message });
    await assert.rejects(runner.start({ ...SAMPLE, input: bytes(600) }), (error: Error) =>
      error.message.includes(message),
    );
    assert.deepEqual([server.writes, [...shelved.keys()]], [['post secrets'], []]);
  });
}

test('runner: a start waits while the quota is used up', async (t) => {
  const { runner, server, problems } = scene(t);
  server.refusal = () => new ApiError(403, { message: 'secrets "cows-1" is forbidden: exceeded quota: few' });
  const started = runner.start(SAMPLE);
  await eventually(() => assert.ok(problems.length > 0));
  server.refusal = () => undefined;
  await started;
  assert.equal(server.all('secrets').length, 1);
});

test('runner: a waiting start ends when the attempt is stopped, and leaves nothing behind', async (t) => {
  const { runner, server, problems, shelved } = scene(t);
  server.refusal = () => new ApiError(403, { message: 'secrets "cows-1" is forbidden: exceeded quota: few' });
  const started = assert.rejects(runner.start({ ...SAMPLE, input: bytes(600) }), { code: 'unavailable' });
  await eventually(() => assert.ok(problems.length > 0));
  await runner.stop(SAMPLE.name, 'cancelled');
  await started;
  assert.deepEqual([server.all('secrets'), [...shelved.keys()]], [[], []]);
});

test('runner: a start that was cancelled can be requested again', async (t) => {
  const { runner, server, problems } = scene(t);
  server.refusal = () => new ApiError(403, { message: 'exceeded quota: few' });
  const started = assert.rejects(runner.start(SAMPLE));
  await eventually(() => assert.ok(problems.length > 0));
  await runner.stop(SAMPLE.name, 'cancelled');
  await started;
  server.refusal = () => undefined;
  await runner.start(SAMPLE);
  assert.equal(server.all('secrets').length, 1);
});

test('runner: a manager that no longer leads starts nothing, and leaves the input to the next leader', async (t) => {
  const { runner, server, problems, shelved } = scene(t);
  server.refusal = () => new ApiError(403, { message: 'exceeded quota: few' });
  const started = assert.rejects(runner.start({ ...SAMPLE, input: bytes(600) }), { code: 'unavailable' });
  await eventually(() => assert.ok(problems.length > 0));
  runner.standDown();
  server.refusal = () => undefined;
  await started;
  assert.deepEqual([server.all('secrets').length, shelved.size], [0, 1]);
  await runner.start(SAMPLE);
  assert.equal(server.all('secrets').length, 1);
});

test('runner: a manager that no longer leads creates no pod for an attempt that it was about to start', async (t) => {
  const { runner, server } = scene(t);
  server.refusal = (write) => void (write === 'post secrets' && runner.standDown());
  await assert.rejects(runner.start(SAMPLE), { code: 'unavailable' });
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
  assert.deepEqual([server.all('secrets').length, server.all('pods').length], [1, 0]);
});

test('runner: a store that issues no keys at first is asked again, and the attempt does not fail', async (t) => {
  const { runner, server } = scene(t);
  let away = true;
  const stores = async () => {
    if (!away) return new Map();
    throw new StoreError('unavailable', 'MinIO is starting');
  };
  const input = { kind: 'object', name: 'x', from: { store: 'minio.default', bucket: 'b', key: 'x' } } as const;
  await runner.start({ ...SAMPLE, input, stores });
  for await (const seen of runner.observe(SAMPLE.name)) {
    assert.equal(seen.phase, 'preparing');
    if (/waits for keys to its input: MinIO is starting/.test(JSON.stringify(seen))) break;
  }
  assert.deepEqual(server.all('pods'), []);
  away = false;
  await eventually(() => assert.equal(server.all('pods').length, 1));
});

test('runner: a call whose warm pod disappears gets its own pod, with everything that it needs', async (t) => {
  const { runner, server } = scene(t);
  const traits = { namespace: 'ns', labels: {}, annotations: {}, imagePullSecrets: [], sgx: false };
  const { image, demand } = SAMPLE;
  runner.standby.setRequests([{ service: 'cows', count: 1, image, demand, traits }]);
  const warm = await eventually(() => (server.all('pods') as Stored<Pod>[])[0] ?? assert.fail('none waits'));
  const container = { state: { running: { startedAt: '2026-01-01T00:00:00Z' } } };
  const status = {
    phase: 'Running',
    initContainerStatuses: [{ name: 'stage-out', ...container }],
    containerStatuses: [{ name: 'oscar-container', ...container }],
  };
  await server.put(POD, warm.metadata, { ...warm, status });
  const job = { service: 'cows', id: 'cows-1' };
  await eventually(() => assert.ok(runner.standby.claim(job)));
  const labels = { [RECORD]: 'job' };
  const spec = { managedBy: 'us', template: { metadata: {}, spec: {} } };
  await server.post(JOB, 'ns', { metadata: { name: jobObjectName(job), namespace: 'ns', labels }, spec });
  server.refusal = (write) => {
    // Its node is drained at the moment when the pod is chosen.
    if (write === 'post secrets') void server.delete(POD, warm.metadata);
    return undefined;
  };
  await runner.start({ ...SAMPLE, answer: true, traits: { ...traits, job } });
  await eventually(() => assert.ok(server.all('pods').some(({ metadata }) => metadata.name === SAMPLE.name)));
  const names = given(server).map(([name]) => name);
  assert.ok(names.includes('orders.json') && names.includes('script.sh'), names.join(' '));
});

test('runner: an outcome that another manager recorded is returned before the watch has reported it', async (t) => {
  const { runner, server } = scene(t);
  await runner.start(SAMPLE);
  await eventually(() => assert.equal(server.all('pods').length, 1));
  await assert.rejects(runner.answer(SAMPLE.name), { code: 'conflict' });
  runner.standDown();
  server.isMute = true;
  const [secret] = server.all('secrets') as Stored<SecretObject>[];
  const [pod] = server.all('pods') as Stored<Pod>[];
  assert.ok(secret && pod);
  const end = { ...outcomeOfUnstarted('ScriptFailed', 'no', 2), startedAt: 1 };
  await server.put(SECRET, secret.metadata, withAnnotations(secret, endNote(end)));
  await server.put(POD, pod.metadata, { ...pod, status: podWith({ script: terminated(1) }).status });
  const openStream = server.openStream.bind(server);
  server.openStream = async (kind, place, ...more) =>
    place.subresource === 'log' ? Readable.from([Buffer.from('printed')]) : openStream(kind, place, ...more);
  assert.equal(await text(await runner.answer(SAMPLE.name)), 'printed');
});

const isRefused = (refused: string) => (write: string) =>
  write === refused ? new ApiError(403, { message: 'exceeded quota: few' }) : undefined;

test('runner: an API server that rejects a pod for now is not asked in a loop, and the attempt says why', async (t) => {
  const { runner, server } = scene(t);
  server.refusal = isRefused('post pods');
  await runner.start(SAMPLE);
  for await (const seen of runner.observe(SAMPLE.name)) if (/exceeded quota/.test(JSON.stringify(seen))) break;
  for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate);
  assert.ok(server.writes.filter((write) => write === 'post pods').length <= 2);
});

test('runner: an attempt whose Secret cannot be rewritten ends, and says why', async (t) => {
  const { runner, server } = scene(t);
  // An earlier manager created the record and died.
  await server.post(SECRET, 'ns', toAttemptSecret(SAMPLE, { namespace: 'ns' }, NO_KEYS, { networks: [], port: 1 }));
  server.refusal = (write, object) =>
    write === 'put secrets' && Object.keys((object as SecretObject).data ?? {}).length > 0
      ? new ApiError(422, { message: 'Too long' })
      : undefined;
  await runner.start(SAMPLE);
  const ends: (readonly [string, string])[] = [];
  for await (const seen of runner.observe(SAMPLE.name))
    if (seen.phase === 'ended') ends.push([seen.reason, seen.message]);
  assert.deepEqual(ends, [['StartFailed', 'Kubernetes does not take what its pod is to be given: Too long']]);
});
