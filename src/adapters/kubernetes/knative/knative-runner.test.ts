import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { test } from 'node:test';
import { changedIn } from '../../../lib/changed-in.fixture.ts';
import type { Attempt } from '../../../model/job/index.ts';
import { eventually } from '../../../ports/conformance/eventually.ts';
import { endOf, log, run, untilPrinted } from '../../../ports/conformance/runner-under-test.ts';
import { endGroup } from '../../../staging/pod/pod.fixture.ts';
import { blobKey, SCRIPT } from '../runner/index.ts';
import { ATTEMPT } from '../runner/pods.fixture.ts';
import { asCall, KnativeFixture, NAMESPACE } from './knative.fixture.ts';

const attemptOf = (script: string, more: Partial<Attempt> = {}): Attempt =>
  asCall({ ...ATTEMPT, name: `svc-${randomUUID()}`, script, ...more });

/** The API server executes the next create and disconnects before it answers. */
function leaveAfterCreate({ server }: KnativeFixture): void {
  let away = false;
  server.fault = (method) => {
    if (away) return 'away';
    away = method === 'POST';
    return away ? 'unanswered' : undefined;
  };
}

test('Knative runner: a call is made although the answer to the creation of its record was lost for long', async (t) => {
  const place = await KnativeFixture.open(t);
  const runner = place.calls();
  await runner.list();
  leaveAfterCreate(place);
  const attempt = attemptOf('echo called');
  const starting = runner.start(attempt);
  await eventually(() => assert.match(String(place.problems), /create Secret/));
  place.server.fault = () => undefined;
  await starting;
  assert.equal((await endOf(runner, attempt.name)).outcome, 'succeeded');
  assert.match(await log(runner, attempt.name), /^called\n/);
});

test('Knative: a leader that steps down while the record is created does not call', async (t) => {
  const place = await KnativeFixture.open(t);
  const runner = place.calls();
  await runner.list();
  leaveAfterCreate(place);
  const attempt = attemptOf('echo ran');
  const starting = runner.start(attempt);
  await eventually(() => assert.match(String(place.problems), /create Secret/));
  await runner.standDown();
  place.server.fault = () => undefined;
  await starting;
  assert.equal((await endOf(runner, attempt.name)).reason, 'Lost');
});

test('Knative: a leader that steps down aborts its calls: they are lost, and their scripts end', async (t) => {
  const place = await KnativeFixture.open(t);
  const [runner, next] = [place.calls(), place.calls()];
  const attempt = attemptOf('echo begun; sleep 60');
  await runner.start(attempt);
  await untilPrinted(runner, attempt.name, 'begun');
  await runner.standDown();
  const ended = await endOf(runner, attempt.name);
  assert.deepEqual([ended.outcome, ended.reason], ['failed', 'Lost']);
  assert.deepEqual(await run(next, attempt), ended);
  await untilPrinted(next, attempt.name, 'begun');
  await run(runner, attemptOf('echo next'));
});

test('Knative: a call that ends soon after the leader stepped down has an outcome, which the next leader reports', async (t) => {
  const place = await KnativeFixture.open(t);
  const [runner, next] = [place.calls(), place.calls()];
  const attempt = attemptOf('echo begun; sleep 0.5; echo ended');
  await runner.start(attempt);
  await untilPrinted(runner, attempt.name, 'begun');
  await runner.standDown(30_000);
  assert.equal((await run(next, attempt)).outcome, 'succeeded');
  assert.match(await log(next, attempt.name), /^begun\nended\n/);
});

test('Knative runner: another manager sees the log of a running call, without gaps', async (t) => {
  const place = await KnativeFixture.open(t);
  const [runner, other] = [place.calls(), place.calls()];
  const attempt = attemptOf('echo begun; sleep 60');
  await runner.start(attempt);
  await untilPrinted(runner, attempt.name, 'begun');
  const following = log(other, attempt.name, true);
  await eventually(async () => assert.equal(await log(other, attempt.name), 'begun\n'), 30_000);
  await runner.stop(attempt.name, 'cancelled');
  assert.match(await following, /^begun\n/);
  assert.doesNotMatch(await following, /begun[^]*begun/);
  assert.equal((await endOf(other, attempt.name)).outcome, 'stopped');
  const soFar = () => place.stores.blobs.get(blobKey(NAMESPACE, attempt.name, 'so-far'));
  await eventually(async () => assert.equal(await soFar(), undefined));
});

test('Knative runner: stopping a call of another manager waits until that manager has ended it', async (t) => {
  const place = await KnativeFixture.open(t);
  const [runner, other] = [place.calls(), place.calls()];
  const attempt = attemptOf('echo begun; sleep 60');
  await runner.start(attempt);
  await untilPrinted(runner, attempt.name, 'begun');
  const stopped = other.stop(attempt.name, 'service-removed');
  await runner.stop(attempt.name, 'service-removed');
  await stopped;
  await other.forget(attempt.name);
  assert.equal(await other.exists(attempt.name), false);
});

test('Knative runner: a call that its manager does not end counts as lost, and can be removed', async (t) => {
  const place = await KnativeFixture.open(t);
  const [runner, other] = [place.calls(), place.calls(place.calling(), 1)];
  const attempt = attemptOf('echo begun; sleep 60');
  await runner.start(attempt);
  await untilPrinted(runner, attempt.name, 'begun');
  await other.stop(attempt.name, 'service-removed');
  assert.equal((await endOf(other, attempt.name)).reason, 'Lost');
  await other.forget(attempt.name);
  await other.stop('svc-nobody', 'service-removed');
});

test('Knative runner: the log of a call whose manager was killed is kept', async (t) => {
  const place = await KnativeFixture.open(t);
  const [runner, next] = [place.calls(), place.calls()];
  const attempt = attemptOf('echo begun; sleep 60');
  await runner.start(attempt);
  await eventually(async () => assert.equal(await log(next, attempt.name), 'begun\n'), 30_000);
  assert.equal(await next.endAbandoned(attempt.name), true);
  assert.equal((await endOf(next, attempt.name)).reason, 'Lost');
  assert.match(await log(next, attempt.name), /^begun\n/);
});

test("Knative runner: out of memory is reported in the kubelet's words", async (t) => {
  const place = await KnativeFixture.open(t);
  const runner = place.calls();
  const attempt = attemptOf('echo begun; sleep 60');
  await runner.start(attempt);
  await untilPrinted(runner, attempt.name, 'begun');
  const death = { lastState: { terminated: { reason: 'OOMKilled', exitCode: 137 } }, state: {} };
  const status = { containerStatuses: [{ name: SCRIPT, ...death }] };
  const dead = { metadata: { name: hostname(), namespace: NAMESPACE }, status };
  place.server.put('pods', dead);
  const [pod] = place.pods;
  assert.ok(pod);
  endGroup(pod.container);
  pod.startContainer();
  const { outcome, reason, message } = await endOf(runner, attempt.name);
  assert.deepEqual([outcome, reason], ['failed', 'OutOfMemory']);
  assert.match(message, /48 MiB/);
});

test('Knative runner: an input that is too large for a record is in the blob store until the call has ended', async (t) => {
  const place = await KnativeFixture.open(t);
  const runner = place.calls();
  const input = { kind: 'bytes', name: 'large', bytes: randomBytes(600 * 1024) } as const;
  const attempt = attemptOf('wc -c <"$INPUT_FILE_PATH"', { input });
  assert.equal((await run(runner, attempt)).outcome, 'succeeded');
  assert.match(await log(runner, attempt.name), /^ *614400\n/);
  const left = () => place.stores.blobs.get(blobKey(NAMESPACE, attempt.name, 'input'));
  await eventually(async () => assert.equal(await left(), undefined));
});

test('Knative runner: a call without keys for its results is not started, and says why', async (t) => {
  const place = await KnativeFixture.open(t);
  const runner = place.calls();
  const outputs = [{ store: 'store', bucket: 'bucket', folder: '', prefix: [], suffix: [] }];
  const stores = () => Promise.reject(new Error('the store is away'));
  const { reason, message, startedAt } = await run(runner, attemptOf('echo ran', { outputs, stores }));
  assert.deepEqual([reason, startedAt], ['StartFailed', undefined]);
  assert.match(message, /the store is away/);
});

test('Knative runner: a call whose answer exceeds the limit fails if the store did not accept the rest', async (t) => {
  const place = await KnativeFixture.open(t);
  const { blobs } = place.stores;
  // No server listens there.
  const urlToPut = async () => 'http://127.0.0.1:9/log';
  const runner = place.calls(place.calling({ blobs: changedIn(blobs, { urlToPut }) }));
  const long = attemptOf('head -c 3000000 /dev/zero | tr "\\0" x');
  const { outcome, reason, message } = await run(runner, long);
  assert.deepEqual([outcome, reason], ['failed', 'OutputFailed']);
  assert.match(message ?? '', /what the script printed could not be kept/);
  const short = attemptOf('echo short');
  assert.equal((await run(runner, short)).outcome, 'succeeded');
  assert.match(await log(runner, short.name), /^short\n/);
});
