import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { get } from 'node:http';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import { readManifest } from '../../model/job/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { embeddedStore } from '../transfers/embedded-store.fixture.ts';
import { end, endGroup, PodUnderTest, STORE, TO_OUTPUTS, toPodStores } from './pod.fixture.ts';
import { stageIn } from './stage-in.ts';
import { type GatedStore, gatedStore } from './store-gate.fixture.ts';

const outputs = [TO_OUTPUTS];
const manifest = { store: STORE, bucket: 'outputs', key: 'allowed/.list' };
const X = 'echo x >"$TMP_OUTPUT_DIR/x"';

type Store = Awaited<ReturnType<typeof embeddedStore>>['store'];
const keysIn = (store: Store) => store.listObjects('outputs', { limit: 1000 }).objects.map(({ key }) => key);
const contentOf = async (store: Store, key: string) =>
  Buffer.concat(await store.readObject({ bucket: 'outputs', key }).stream.toArray());

const notedIn = (pod: PodUnderTest) => readFileSync(pod.parts.uploaded, 'utf8').match(/,"[0-9a-f]+"\]$/gm)?.length ?? 0;

test('stage-out: the output is uploaded, and the result reports it', async (t) => {
  const { store, access } = await embeddedStore(t);
  const pod = new PodUnderTest(t, { outputs, manifest }, toPodStores(access));
  // File times come from a kernel clock with a resolution of up to ten milliseconds.
  const before = Date.now() - 10;
  const { code, result } = await pod.run(`${X}; mkdir "$TMP_OUTPUT_DIR/sub"; echo y >"$TMP_OUTPUT_DIR/sub/y"`);
  assert.equal(code, 0);
  assert.deepEqual([result?.outcome, result?.reason, result?.exitCode], ['succeeded', 'Completed', 0]);
  assert.ok(result?.startedAt && before <= result.startedAt && result.startedAt <= result.finishedAt);
  assert.deepEqual(keysIn(store), ['allowed/.list', 'allowed/sub/y', 'allowed/x']);
  const list = await contentOf(store, manifest.key);
  assert.equal(result.manifest, hash('sha256', list));
  assert.equal(readManifest(list).length, 2);
});

test('stage-out: the manifest of a script without output is empty', async (t) => {
  const { store, access } = await embeddedStore(t);
  const pod = new PodUnderTest(t, { outputs, manifest }, toPodStores(access));
  const { result } = await pod.run('exit 0');
  assert.equal(result?.outcome, 'succeeded');
  assert.deepEqual(readManifest(await contentOf(store, manifest.key)), []);
});

test('stage-out: nothing is uploaded for a failed script', async (t) => {
  const { store, access } = await embeddedStore(t);
  const pod = new PodUnderTest(t, { outputs, manifest, answer: true }, toPodStores(access));
  const { code, result } = await pod.run(`${X}; exit 3`);
  assert.equal(code, 3);
  assert.deepEqual([result?.outcome, result?.reason, result?.exitCode], ['failed', 'ScriptFailed', 3]);
  assert.equal(result?.message, 'the script ended with exit code 3');
  assert.deepEqual(keysIn(store), []);
});

test('stage-out: nothing is uploaded if the container was killed without an exit code', async (t) => {
  const { store, access } = await embeddedStore(t);
  const pod = new PodUnderTest(t, { outputs }, toPodStores(access));
  await stageIn(pod.layout);
  const beside = pod.stageOut();
  const script = pod.wrapped(`${X}; echo >"$MARKS/begun"; while :; do sleep 0.05; done`);
  await eventually(() => assert.ok(existsSync(join(pod.parts.marks, 'begun'))));
  endGroup(script.child);
  await script.ended;
  assert.equal(await end(beside), 0);
  const result = pod.result();
  assert.deepEqual([result?.outcome, result?.reason, result?.exitCode], ['failed', 'Lost', undefined]);
  assert.deepEqual(keysIn(store), []);
});

test('stage-out: nothing is uploaded for a stopped script, whatever its exit code', async (t) => {
  const { store, access } = await embeddedStore(t);
  const pod = new PodUnderTest(t, { outputs }, toPodStores(access));
  await stageIn(pod.layout);
  const beside = pod.stageOut();
  const script = pod.wrapped(`trap 'exit 0' TERM; ${X}; echo >"$MARKS/begun"; while :; do sleep 0.05; done`);
  await eventually(() => assert.ok(existsSync(join(pod.parts.marks, 'begun'))));
  script.child.kill('SIGTERM');
  assert.equal(await script.ended, 0);
  await eventually(() => assert.ok(existsSync(pod.parts.done)));
  assert.equal(await end(beside), 0);
  assert.deepEqual([pod.result()?.outcome, pod.result()?.reason, pod.result()?.exitCode], ['stopped', 'Stopped', 0]);
  assert.deepEqual(keysIn(store), []);
});

test('stage-out: a pod that ends before its script started reports it', async (t) => {
  const pod = new PodUnderTest(t);
  await stageIn(pod.layout);
  const beside = pod.stageOut();
  assert.equal(await end(beside), 0);
  assert.match(beside.printed(), /left no exit code/);
  assert.deepEqual([pod.result()?.reason, pod.result()?.startedAt], ['Lost', undefined]);
});

test('stage-out: killed during an upload and restarted, it uploads the rest and nothing twice', async (t) => {
  const gate = await gatedStore(t);
  const pod = new PodUnderTest(t, { outputs, manifest }, toPodStores(gate.access));
  await stageIn(pod.layout);
  const held = Promise.withResolvers<number | undefined>();
  gate.judge = (name) => (name.endsWith('/b') ? held.promise : undefined);
  const first = pod.stageOut();
  const script = pod.wrapped('cd "$TMP_OUTPUT_DIR"; for each in a b c d e f g h i j; do echo $each >$each; done');
  // An upload is recorded after the store's response.
  await eventually(() => assert.equal(notedIn(pod), 9));
  first.child.kill('SIGKILL');
  assert.equal(await first.ended, 'SIGKILL');
  assert.equal(script.child.exitCode, null);
  held.resolve(503);
  gate.judge = () => undefined;

  const second = pod.stageOut();
  assert.equal(await script.ended, 0);
  assert.equal(await end(second), 0);
  assert.equal(pod.result()?.outcome, 'succeeded');
  const written = gate.done.filter((name) => name.startsWith('PUT '));
  assert.deepEqual(written.toSorted(), [...new Set(written)].toSorted());
  assert.equal(keysIn(gate.store).length, 11);
  assert.equal(readManifest(await contentOf(gate.store, manifest.key)).length, 10);
  // Only the interrupted upload is checked at the store.
  assert.deepEqual(
    gate.asked.filter((name) => name.startsWith('HEAD ')),
    ['HEAD /outputs/allowed/b'],
  );
});

test('stage-out: it ends with the container of the script, not before', async (t) => {
  const { access } = await embeddedStore(t);
  const pod = new PodUnderTest(t, { outputs }, toPodStores(access));
  await stageIn(pod.layout);
  const beside = pod.stageOut();
  writeFileSync(pod.parts.exit, '0\n');
  await eventually(() => assert.ok(existsSync(pod.parts.done)));
  assert.equal(beside.child.exitCode, null);
  writeFileSync(pod.parts.left, '');
  assert.equal(await beside.ended, 0);
  assert.equal(pod.result()?.outcome, 'succeeded');
});

test('wrapper: the container of a successful script writes the marker that it ends', async (t) => {
  const pod = new PodUnderTest(t);
  await stageIn(pod.layout);
  const beside = pod.stageOut();
  assert.equal(await pod.wrapped('exit 0').ended, 0);
  assert.equal(await beside.ended, 0);
});

test('stage-out: killed after its end and restarted, it reports the same result and does nothing', async (t) => {
  const gate = await gatedStore(t);
  const pod = new PodUnderTest(t, { outputs }, toPodStores(gate.access));
  await stageIn(pod.layout);
  const first = pod.stageOut();
  await pod.wrapped(X).ended;
  const result = pod.result();
  assert.equal(result?.outcome, 'succeeded');
  first.child.kill('SIGKILL');
  await first.ended;
  writeFileSync(pod.layout.termination, '');
  const asked = gate.asked.length;
  const second = pod.stageOut();
  await eventually(() => assert.deepEqual(pod.result(), result));
  assert.equal(await end(second), 0);
  assert.equal(gate.asked.length, asked);
});

const WRITE_ALLOWED = JSON.stringify({
  Version: '2012-10-17',
  Statement: [{ Effect: 'Allow', Action: 's3:PutObject', Resource: 'arn:aws:s3:::outputs/allowed/*' }],
});

/** Keys that can write the outputs of a job. */
async function issued({ store, access }: GatedStore) {
  const { id, accessKey, ...keys } = await store.issueKeys({ parent: 'job', policy: WRITE_ALLOWED, ttl: 600_000 });
  return { id, accessKey, stores: toPodStores({ ...access, ...keys, accessKey: new Secret(accessKey) }) };
}

test('stage-out: it waits for renewed keys during an upload, and does not repeat uploaded files', async (t) => {
  const gate = await gatedStore(t);
  const { store } = gate;
  const [old, fresh] = [await issued(gate), await issued(gate)];
  const pod = new PodUnderTest(t, { outputs }, old.stores);
  await stageIn(pod.layout);
  const revoked = Promise.withResolvers<undefined>();
  gate.judge = (name) => (name.endsWith('/c') ? revoked.promise : undefined);
  const beside = pod.stageOut();
  const script = pod.wrapped('cd "$TMP_OUTPUT_DIR"; for each in a b c; do echo $each >$each; done');
  await eventually(() => assert.deepEqual([notedIn(pod), gate.asked.length], [2, 3]));
  await store.revokeKeys(old.id);
  revoked.resolve(undefined);
  gate.judge = () => undefined;
  await eventually(() => assert.match(beside.printed(), /keys have expired: waiting for renewed ones/));
  assert.equal(script.child.exitCode, null);
  pod.give(fresh.stores);
  assert.equal(await script.ended, 0);
  assert.equal(await end(beside), 0);
  assert.equal(pod.result()?.outcome, 'succeeded');
  assert.deepEqual(
    gate.done.toSorted(),
    ['a', 'b', 'c'].map((name) => `PUT /outputs/allowed/${name}`),
  );
});

test('stage-out: each file is uploaded with the keys that are current when its upload starts', async (t) => {
  const gate = await gatedStore(t);
  const [old, fresh] = [await issued(gate), await issued(gate)];
  const pod = new PodUnderTest(t, { outputs, manifest }, old.stores);
  await stageIn(pod.layout);
  const used = new Map<string, string>();
  const renewed = Promise.withResolvers<undefined>();
  gate.judge = (name, accessKey) => {
    used.set(name.replace(/.*\//, ''), accessKey);
    return renewed.promise;
  };
  const beside = pod.stageOut();
  const script = pod.wrapped('cd "$TMP_OUTPUT_DIR"; for each in a b c d e f g h; do echo $each >$each; done');
  await eventually(() => assert.equal(used.size, 6, 'so many are on their way at once'));
  const first = [...used.keys()];
  pod.give(fresh.stores);
  renewed.resolve(undefined);
  assert.equal(await script.ended, 0);
  assert.equal(await end(beside), 0);
  assert.equal(pod.result()?.outcome, 'succeeded');
  assert.equal(used.size, 9);
  for (const [name, accessKey] of used) {
    assert.equal(accessKey, first.includes(name) ? old.accessKey : fresh.accessKey, name);
  }
});

test('stage-out: it waits for keys that do not exist yet, and nothing is lost', async (t) => {
  const { store, access } = await embeddedStore(t);
  const pod = new PodUnderTest(t, { outputs });
  await stageIn(pod.layout);
  const beside = pod.stageOut();
  const script = pod.wrapped(X);
  await eventually(() => assert.match(beside.printed(), /there are no keys yet: waiting for them/));
  assert.equal(script.child.exitCode, null);
  pod.give(toPodStores(access));
  assert.equal(await script.ended, 0);
  await beside.ended;
  assert.equal(pod.result()?.outcome, 'succeeded');
  assert.deepEqual(keysIn(store), ['allowed/x']);
});

test('retry: an unreachable store is retried until the patience of the orders ends', async (t) => {
  const gate = await gatedStore(t);
  const pod = new PodUnderTest(t, { outputs, patience: 60_000 }, toPodStores(gate.access));
  let refused = 0;
  gate.judge = () => (refused++ < 1 ? 404 : undefined);
  const { result, printed } = await pod.run(X);
  assert.equal(result?.outcome, 'succeeded');
  assert.match(printed, /the output is not delivered yet/);
  assert.ok(result.notices?.some((notice) => notice.includes('not delivered yet')));
});

test('retry: without patience the first failure is final, and its message names the file', async (t) => {
  const gate = await gatedStore(t);
  const pod = new PodUnderTest(t, { outputs }, toPodStores(gate.access));
  gate.judge = () => 404;
  const { code, result } = await pod.run(X);
  assert.equal(code, 0);
  assert.deepEqual([result?.outcome, result?.reason, result?.exitCode], ['failed', 'OutputFailed', 0]);
  assert.match(result?.message ?? '', /the output "x" could not be written to minio\.default, bucket "outputs"/);
});

test('retry: a stopped attempt is not retried', async (t) => {
  const gate = await gatedStore(t);
  const pod = new PodUnderTest(t, { outputs, patience: 3_600_000 }, toPodStores(gate.access));
  gate.judge = () => 404;
  await stageIn(pod.layout);
  const beside = pod.stageOut();
  const script = pod.wrapped(X);
  await eventually(() => assert.ok(gate.asked.length > 1));
  script.child.kill('SIGTERM');
  assert.equal(await script.ended, 0);
  assert.equal(await end(beside), 0);
  assert.equal(pod.result()?.reason, 'OutputFailed');
});

test('stage-out: a signal during an upload stops it, and the result reports it', async (t) => {
  const gate = await gatedStore(t);
  const pod = new PodUnderTest(t, { outputs }, toPodStores(gate.access));
  gate.judge = () => new Promise(() => undefined);
  await stageIn(pod.layout);
  const beside = pod.stageOut();
  pod.wrapped(X);
  await eventually(() => assert.equal(gate.asked.length, 1));
  assert.equal(await end(beside), 0);
  const result = pod.result();
  assert.deepEqual([result?.reason, result?.exitCode], ['OutputFailed', 0]);
  assert.match(result?.message ?? '', /the pod was ended while it was uploaded/);
});

for (const { what, script, check } of [
  { what: 'the one file', script: X, check: (answer: Buffer) => assert.equal(answer.toString(), 'x\n') },
  {
    what: 'an archive of several',
    script: `${X}; echo y >"$TMP_OUTPUT_DIR/y"`,
    check: (answer: Buffer) => assert.equal(answer.toString('latin1', 0, 2), 'PK'),
  },
]) {
  test(`answer: it is ${what}, uploaded to the current URL`, async (t) => {
    const { store, access } = await embeddedStore(t);
    const at = { bucket: 'outputs', key: '.shelf/answer' };
    const url = (expires: number) => new Secret(store.presign('PUT', at, { expires, endpoint: access.endpoint ?? '' }));
    const wrong = new Secret(
      url(60)
        .reveal()
        .replace(/X-Amz-Signature=.{8}/, 'X-Amz-Signature=00000000'),
    );
    const pod = new PodUnderTest(t, { answer: true }, { answer: wrong });
    await stageIn(pod.layout);
    const beside = pod.stageOut();
    const program = pod.wrapped(script);
    await eventually(() => assert.ok(existsSync(pod.parts.answer)));
    pod.give({ answer: url(60) });
    assert.equal(await program.ended, 0);
    assert.equal(await end(beside), 0);
    assert.deepEqual([pod.result()?.outcome, pod.result()?.answered], ['succeeded', true]);
    check(Buffer.from((await contentOf(store, '.shelf/answer')).toString(), 'base64'));
  });
}

test('answer: without output files nothing is uploaded', async (t) => {
  const pod = new PodUnderTest(t, { answer: true });
  const { result } = await pod.run('echo hello');
  assert.deepEqual([result?.outcome, result?.answered], ['succeeded', undefined]);
});

test('probe: it reports when the script has ended', async (t) => {
  const port = await freePort();
  const pod = new PodUnderTest(t, { port });
  await stageIn(pod.layout);
  const beside = pod.stageOut();
  const status = () =>
    new Promise((resolve, reject) => {
      get(`http://127.0.0.1:${port}/`, (answer) => resolve(answer.resume().statusCode)).on('error', reject);
    });
  // The script's container, and with it stage-out, runs until the test writes the marker `done`.
  const said = join(pod.parts.said, 'later');
  mkdirSync(said);
  const script = pod.wrapped('while [ ! -e "$MARKS/go" ]; do sleep 0.05; done', { said });
  await eventually(async () => assert.equal(await status(), 503));
  writeFileSync(join(pod.parts.marks, 'go'), '');
  await eventually(async () => assert.equal(await status(), 200));
  writeFileSync(join(said, 'done'), '');
  assert.equal(await script.ended, 0);
  assert.equal(await end(beside), 0);
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0);
  await eventually(() => assert.ok(server.listening));
  const { port } = server.address() as { port: number };
  await new Promise((closed) => server.close(closed));
  return port;
}
