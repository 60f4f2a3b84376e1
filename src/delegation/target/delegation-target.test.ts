import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DelegationError } from '../../peers/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { KEY, MEMBER, openTarget, type ScriptedOrigin, type TestTarget } from './target.fixture.ts';

const MANIFEST = 'a'.repeat(64);

/** An offer that was taken, and whose script runs. */
async function running(target: TestTarget, epoch = 1): Promise<string> {
  const { attempt } = await target.offer({ epoch });
  await eventually(() => assert.ok(target.runner.attempts.has(attempt)));
  await eventually(() => assert.ok(target.origin.reports.some((each) => each.attempt.epoch === epoch)));
  return attempt;
}

const lastReport = ({ origin }: TestTarget) => origin.reports.at(-1)?.report;

test('the origin hears of the start at once, now and then that it runs, and of its end; then the job ends here', async (t) => {
  const target = await openTarget(t, { faster: 10_000 });
  const attempt = await running(target);
  await eventually(() => assert.ok(target.origin.states().length > 2));
  const first = target.origin.reports[0];
  assert.deepEqual(first?.attempt, { job: { service: 'cow', id: 'cow-1' }, epoch: 1 });
  assert.ok(first?.report.state === 'running' && first.report.startedAt !== undefined);
  target.runner.end(attempt, { manifest: MANIFEST });
  const { timeline, handIn, exitCode, startedAt, finishedAt } = await target.until(attempt, 'succeeded');
  assert.deepEqual(
    timeline.map(({ state }) => state),
    ['accepted', 'queued', 'running', 'committing', 'succeeded'],
  );
  assert.deepEqual([handIn?.outcome, handIn?.manifest, exitCode], ['succeeded', MANIFEST, 0]);
  const report = { state: 'succeeded', reason: 'Completed', message: 'done', manifest: MANIFEST };
  assert.deepEqual(lastReport(target), { ...report, startedAt, finishedAt, exitCode: 0 });
  await eventually(() => assert.equal(target.capacity.taken, 0));
  const count = target.origin.reports.length;
  await running(target, 2);
  const later = target.origin.reports.slice(count).map(({ attempt: { epoch } }) => epoch);
  assert.deepEqual([...new Set(later)], [2], 'nothing more is said about one that has ended');
});

test('a script that fails is told with its exit code', async (t) => {
  const target = await openTarget(t);
  const attempt = await running(target);
  target.runner.end(attempt, { outcome: 'failed', reason: 'ScriptFailed', message: 'exit code 3', exitCode: 3 });
  const record = await target.until(attempt, 'failed');
  assert.deepEqual([record.exitCode, record.timeline.at(-1)?.reason], [3, 'ScriptFailed']);
  const report = lastReport(target);
  assert.ok(report?.state === 'failed');
  assert.deepEqual([report.exitCode, report.reason, report.message], [3, 'ScriptFailed', 'exit code 3']);
});

test('success without a list of its results is told as a failure', async (t) => {
  const target = await openTarget(t);
  const attempt = await running(target);
  target.runner.end(attempt);
  assert.equal((await target.until(attempt, 'failed')).timeline.at(-1)?.reason, 'OutputFailed');
  assert.equal(lastReport(target)?.state, 'failed');
});

test('one whose script never began is given back, with what hindered it', async (t) => {
  const target = await openTarget(t);
  target.runner.refuse = new Error('no containers today');
  const { attempt } = await target.offer();
  const record = await target.until(attempt, 'cancelled');
  assert.deepEqual(lastReport(target), {
    state: 'released',
    reason: 'StartFailed',
    message: 'it could not be started: no containers today',
  });
  assert.match(record.message, /^it was given back: /);
  await eventually(() => assert.equal(target.capacity.taken, 0));
});

const overs = [
  { name: 'fenced', over: new DelegationError('fenced', 'x'), says: /another attempt/ },
  { name: 'gone', over: new DelegationError('job-gone', 'x'), says: /does not know the job/ },
];
for (const { name, over, says } of overs) {
  test(`a run whose job is ${name} is stopped, and its origin is told nothing more`, async (t) => {
    const target = await openTarget(t);
    const attempt = await running(target);
    target.origin.over = over;
    const record = await target.until(attempt, 'cancelled');
    assert.deepEqual(
      [record.timeline.at(-1)?.reason, target.runner.attempts.get(attempt)?.stopped, record.handIn],
      ['Superseded', 'superseded', undefined],
    );
    await eventually(() => assert.equal(target.capacity.taken, 0));
  });

  test(`an end whose job is ${name} by then is nobody's, and that is said`, async (t) => {
    const target = await openTarget(t, { faster: 1 });
    const attempt = await running(target);
    target.origin.over = over;
    target.runner.end(attempt, { manifest: MANIFEST });
    const { timeline, message } = await target.until(attempt, 'cancelled');
    assert.equal(timeline.at(-1)?.reason, 'Superseded');
    assert.match(message, says);
  });
}

test('an origin that is silent at the end is told when it is back, and the room is free meanwhile', async (t) => {
  const target = await openTarget(t);
  const attempt = await running(target);
  target.origin.silent = true;
  target.runner.end(attempt, { manifest: MANIFEST });
  await target.until(attempt, 'committing');
  await eventually(() => assert.equal(target.capacity.taken, 0));
  target.origin.silent = false;
  await target.until(attempt, 'succeeded');
  assert.equal(lastReport(target)?.state, 'succeeded');
});

test('an origin that is silent for a day is not told any more', async (t) => {
  const target = await openTarget(t);
  const attempt = await running(target);
  target.origin.silent = true;
  target.runner.end(attempt, { manifest: MANIFEST });
  await target.until(attempt, 'committing');
  target.ahead = 23 * 3_600_000;
  await eventually(async () => assert.equal((await target.get(attempt))?.state, 'committing'));
  target.ahead = 24 * 3_600_000 + 1_000;
  assert.equal((await target.until(attempt, 'cancelled')).timeline.at(-1)?.reason, 'OriginSilent');
});

test('a run goes on while its origin is silent', async (t) => {
  const target = await openTarget(t, { faster: 10_000 });
  const attempt = await running(target);
  target.origin.silent = true;
  const heard = target.origin.reports.length;
  target.ahead = 600_000;
  target.runner.end(attempt, { manifest: MANIFEST });
  await target.until(attempt, 'committing');
  assert.deepEqual([target.runner.attempts.get(attempt)?.stopped, target.origin.reports.length], [undefined, heard]);
});

test('a run goes on while its worker has no key: another may just have taken its place', async (t) => {
  const known: { origin?: ScriptedOrigin; key?: typeof KEY } = { key: KEY };
  const coordinatorOf = async () => known.origin && { origin: known.origin, key: known.key };
  const target = await openTarget(t, { faster: 10_000, parts: { coordinatorOf } });
  known.origin = target.origin;
  const attempt = await running(target);
  delete known.key;
  const heard = target.origin.reports.length;
  target.runner.end(attempt, { manifest: MANIFEST });
  await target.until(attempt, 'committing');
  assert.deepEqual([target.runner.attempts.get(attempt)?.stopped, target.origin.reports.length], [undefined, heard]);
  known.key = KEY;
  await target.until(attempt, 'succeeded');
});

test('a job of an origin that is away before it begins is given back when its lease is over', async (t) => {
  const target = await openTarget(t);
  // Not young enough to begin with: it is asked for again, and nobody answers.
  target.origin.lease = 0;
  const gate = Promise.withResolvers<void>();
  target.origin.gate = gate.promise;
  const offer = target.offer();
  await eventually(() => assert.equal(target.origin.permits.length, 1));
  gate.resolve();
  const { attempt } = await offer;
  target.origin.silent = true;
  const record = await target.until(attempt, 'committing');
  assert.deepEqual([record.handIn?.outcome, record.handIn?.reason], ['cancelled', 'OriginAway']);
  assert.equal(target.runner.attempts.size, 0);
  target.origin.silent = false;
  await target.until(attempt, 'cancelled');
  assert.equal(lastReport(target)?.state, 'released');
});

test('a job that its origin fences before it begins is not begun', async (t) => {
  const target = await openTarget(t, { faster: 1 });
  const first = await running(target);
  const { attempt } = await target.offer({ epoch: 2, pinned: true });
  target.ahead = 60_000;
  target.end();
  target.origin.fences = true;
  const next = await target.restarted();
  next.ahead = 60_000;
  await next.until(first, 'cancelled');
  const { timeline } = await next.until(attempt, 'cancelled');
  assert.ok(!next.runner.attempts.has(attempt));
  assert.equal(timeline.at(-1)?.reason, 'Superseded');
  await eventually(() => assert.equal(next.capacity.taken, 0));
});

test('its origin can stop it, and nobody else', async (t) => {
  const target = await openTarget(t);
  const attempt = await running(target);
  await target.taken.stop(target.key(attempt), { ...target.from, member: 'oscar-cluster-c/calf' });
  await target.taken.stop(target.key(attempt), { ...target.from, uid: 'federation-2' });
  await target.taken.stop(target.key('calf-none'), target.from);
  assert.equal((await target.get(attempt))?.state, 'running');
  await target.taken.stop(target.key(attempt), target.from);
  const record = await target.until(attempt, 'cancelled');
  assert.deepEqual([record.timeline.at(-1)?.reason, record.handIn], ['Superseded', undefined]);
  await target.taken.stop(target.key(attempt), target.from);
});

test('its origin can stop it while it waits, and while it is being taken', async (t) => {
  const target = await openTarget(t);
  await running(target);
  const waits = await target.offer({ epoch: 2, pinned: true });
  await target.taken.stop(target.key(waits.attempt), target.from);
  await target.until(waits.attempt, 'cancelled');
  assert.equal(target.dispatcher.waiting, 0);

  const gate = Promise.withResolvers<void>();
  target.origin.gate = gate.promise;
  const asked = target.origin.permits.length;
  const offer = target.offer({ epoch: 3, pinned: true });
  await eventually(() => assert.equal(target.origin.permits.length, asked + 1));
  const { hostedAttemptName } = await import('../../jobs/index.ts');
  const name = hostedAttemptName('federation-1', MEMBER, { service: 'cow', id: 'cow-1' }, 3, 'calf');
  const stopped = target.taken.stop(target.key(name), target.from);
  gate.resolve();
  await Promise.all([offer, stopped]);
  assert.equal((await target.get(name))?.state, 'cancelled');
});

test('somebody here who cancels it ends it for its origin too', async (t) => {
  const target = await openTarget(t);
  const attempt = await running(target);
  await target.dispatcher.cancel(target.key(attempt), 'cancelled');
  assert.equal((await target.until(attempt, 'cancelled')).timeline.at(-1)?.reason, 'Cancelled');
  const report = lastReport(target);
  assert.deepEqual([report?.state, report?.message], ['failed', 'it was cancelled']);
});

test('somebody here who cancels one that waits ends it for its origin too', async (t) => {
  const target = await openTarget(t, { faster: 1 });
  await running(target);
  const { attempt } = await target.offer({ epoch: 2, pinned: true });
  await target.dispatcher.cancel(target.key(attempt), 'cancelled');
  const record = await target.until(attempt, 'cancelled');
  target.taken.reportCancelled(record);
  await eventually(() => assert.equal(lastReport(target)?.state, 'failed'));
  assert.deepEqual(lastReport(target), {
    state: 'failed',
    reason: 'Cancelled',
    message: 'it was cancelled',
    finishedAt: record.finishedAt,
  });
});

test('what runs for a federation that it left meanwhile is found by the next manager, and ended', async (t) => {
  const target = await openTarget(t);
  const attempt = await running(target);
  target.end();
  const { federation: _, ...alone } = target.service;
  await target.cluster.services.replace(alone, target.worker.version);
  const next = await target.restarted();
  await next.until(attempt, 'cancelled');
  assert.equal(next.runner.attempts.get(attempt)?.stopped, 'superseded');
});

test('the log of an attempt is for its origin alone', async (t) => {
  const target = await openTarget(t);
  const attempt = await running(target);
  const options = { timestamps: false, follow: false };
  const pieces: Uint8Array[] = [];
  for await (const piece of await target.taken.logs(target.key(attempt), options, target.from)) pieces.push(piece);
  assert.equal(Buffer.concat(pieces).toString(), `log of ${attempt}\n`);
  const others = target.taken.logs(target.key(attempt), options, { ...target.from, uid: 'federation-2' });
  await assert.rejects(others, { code: 'job-gone' });
});

test('a crash between the disk and the start loses nothing: the next manager begins it, once', async (t) => {
  const target = await openTarget(t);
  target.dispatcher.begin = () => undefined;
  const { attempt } = await target.offer();
  assert.equal((await target.get(attempt))?.state, 'queued');
  const next = await target.restarted();
  await next.until(attempt, 'running');
  await eventually(() => assert.equal(next.runner.attempts.get(attempt)?.starts, 1));
  next.runner.end(attempt, { manifest: MANIFEST });
  await next.until(attempt, 'succeeded');
  await eventually(() => assert.equal(next.capacity.taken, 0));
});

test('a manager that comes back finds what runs, without asking its origin, and tells its end', async (t) => {
  const target = await openTarget(t);
  const attempt = await running(target);
  target.origin.silent = true;
  const asked = target.origin.permits.length;
  const next = await target.restarted();
  await eventually(() => assert.equal(next.runner.attempts.get(attempt)?.starts, 2));
  assert.deepEqual([next.capacity.taken, next.origin.permits.length], [1000, asked]);
  next.runner.end(attempt, { manifest: MANIFEST });
  await next.until(attempt, 'committing');
  next.origin.silent = false;
  await next.until(attempt, 'succeeded');
});

test('what ran before its start was written down is taken up too, even when its origin is away', async (t) => {
  const target = await openTarget(t);
  const { attempt } = await target.offer();
  await eventually(() => assert.ok(target.runner.attempts.has(attempt)));
  await eventually(async () => assert.ok((await target.get(attempt))?.startedAt !== undefined));
  target.end();
  const { jobs } = target.cluster;
  const record = await jobs.get(target.key(attempt));
  // As if the manager had died a moment earlier.
  if (record) await jobs.update(record, record.version, { startedAt: undefined } as never);
  assert.equal((await target.get(attempt))?.startedAt, undefined);
  target.origin.silent = true;
  const next = await target.restarted();
  await eventually(() => assert.equal(next.runner.attempts.get(attempt)?.starts, 2));
});

test('a manager that comes back hands in what it had not handed in, and holds no room for it', async (t) => {
  const target = await openTarget(t);
  const attempt = await running(target);
  target.origin.silent = true;
  target.runner.end(attempt, { manifest: MANIFEST });
  await target.until(attempt, 'committing');
  const next = await target.restarted();
  assert.equal(next.capacity.taken, 0);
  next.origin.silent = false;
  await next.until(attempt, 'succeeded');
  assert.deepEqual(
    next.origin.states().filter((state) => state === 'succeeded'),
    ['succeeded'],
  );
});

test('one that waits in line is still in line after a restart, and its origin still hears of it', async (t) => {
  const target = await openTarget(t);
  const first = await running(target);
  const { attempt } = await target.offer({ epoch: 2, pinned: true });
  const next = await target.restarted();
  const before = next.origin.reports.length;
  await eventually(() => assert.ok(next.origin.reports.slice(before).some((each) => each.attempt.epoch === 2)));
  await eventually(() => next.runner.end(first, { manifest: MANIFEST }));
  await next.until(attempt, 'running');
});

test('a worker that is none of that federation any more has nothing to hand in', async (t) => {
  const target = await openTarget(t);
  const attempt = await running(target);
  const { federation: _, ...alone } = target.service;
  await target.cluster.services.replace(alone, target.worker.version);
  target.runner.end(attempt, { manifest: MANIFEST });
  assert.equal((await target.until(attempt, 'cancelled')).timeline.at(-1)?.reason, 'Superseded');
});
