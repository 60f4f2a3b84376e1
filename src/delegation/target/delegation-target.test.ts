import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DelegationError } from '../../peers/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { KEY, MEMBER, openTarget, type ScriptedOrigin, type TestTarget } from './target.fixture.ts';

const MANIFEST = 'a'.repeat(64);

/** An accepted offer whose script runs. */
async function running(target: TestTarget, epoch = 1): Promise<string> {
  const { attempt } = await target.offer({ epoch });
  await eventually(() => assert.ok(target.runner.attempts.has(attempt)));
  await eventually(() => assert.ok(target.origin.reports.some((each) => each.attempt.epoch === epoch)));
  return attempt;
}

const lastReport = ({ origin }: TestTarget) => origin.reports.at(-1)?.report;

test('report: the target reports the start at once, then periodically, then the end; then its own job ends', async (t) => {
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

test('report: a failed script is reported with its exit code', async (t) => {
  const target = await openTarget(t);
  const attempt = await running(target);
  target.runner.end(attempt, { outcome: 'failed', reason: 'ScriptFailed', message: 'exit code 3', exitCode: 3 });
  const record = await target.until(attempt, 'failed');
  assert.deepEqual([record.exitCode, record.timeline.at(-1)?.reason], [3, 'ScriptFailed']);
  const report = lastReport(target);
  assert.ok(report?.state === 'failed');
  assert.deepEqual([report.exitCode, report.reason, report.message], [3, 'ScriptFailed', 'exit code 3']);
});

test('report: success without a manifest is reported as a failure', async (t) => {
  const target = await openTarget(t);
  const attempt = await running(target);
  target.runner.end(attempt);
  assert.equal((await target.until(attempt, 'failed')).timeline.at(-1)?.reason, 'OutputFailed');
  assert.equal(lastReport(target)?.state, 'failed');
});

test('report: a job whose script never started is released with the reason', async (t) => {
  const target = await openTarget(t);
  target.runner.refuse = new Error('no containers today');
  const { attempt } = await target.offer();
  const record = await target.until(attempt, 'cancelled');
  assert.deepEqual(lastReport(target), {
    state: 'released',
    reason: 'StartFailed',
    message: 'it could not be started: no containers today',
  });
  assert.match(record.message, /^returned to the origin: /);
  await eventually(() => assert.equal(target.capacity.taken, 0));
});

const overs = [
  { name: 'fenced', over: new DelegationError('fenced', 'x'), says: /another attempt/ },
  { name: 'gone', over: new DelegationError('job-gone', 'x'), says: /does not know the job/ },
];
for (const { name, over, says } of overs) {
  test(`report: a running attempt whose job is ${name} is stopped, and nothing more is reported`, async (t) => {
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

  test(`report: the end of an attempt whose job is ${name} is not accepted, and the record says so`, async (t) => {
    const target = await openTarget(t, { faster: 1 });
    const attempt = await running(target);
    target.origin.over = over;
    target.runner.end(attempt, { manifest: MANIFEST });
    const { timeline, message } = await target.until(attempt, 'cancelled');
    assert.equal(timeline.at(-1)?.reason, 'Superseded');
    assert.match(message, says);
  });
}

test('report: the end is reported when a silent origin answers again, and the capacity is free meanwhile', async (t) => {
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

test('report: after a day of silence the end is not reported any more', async (t) => {
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

test('run: a script continues while its origin is silent', async (t) => {
  const target = await openTarget(t, { faster: 10_000 });
  const attempt = await running(target);
  target.origin.silent = true;
  const heard = target.origin.reports.length;
  target.ahead = 600_000;
  target.runner.end(attempt, { manifest: MANIFEST });
  await target.until(attempt, 'committing');
  assert.deepEqual([target.runner.attempts.get(attempt)?.stopped, target.origin.reports.length], [undefined, heard]);
});

test('run: a script continues while its worker has no key, because the key may just be replaced', async (t) => {
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

test('start: a job whose origin is away before it starts is released when the lease is over', async (t) => {
  const target = await openTarget(t);
  // The permit expires at once, so the target requests another one, and the origin does not answer.
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

test('start: a job that was fenced before it starts is not started', async (t) => {
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

test('stop: only the origin can stop an attempt', async (t) => {
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

test('stop: the origin can stop an attempt while it waits and while it is being accepted', async (t) => {
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

test('cancel: cancelling a running attempt at the target ends it for its origin too', async (t) => {
  const target = await openTarget(t);
  const attempt = await running(target);
  await target.dispatcher.cancel(target.key(attempt), 'cancelled');
  assert.equal((await target.until(attempt, 'cancelled')).timeline.at(-1)?.reason, 'Cancelled');
  const report = lastReport(target);
  assert.deepEqual([report?.state, report?.message], ['failed', 'it was cancelled']);
});

test('cancel: cancelling a waiting attempt at the target ends it for its origin too', async (t) => {
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

test('restart: the next manager ends attempts of a federation that the worker has left', async (t) => {
  const target = await openTarget(t);
  const attempt = await running(target);
  target.end();
  const { federation: _, ...alone } = target.service;
  await target.cluster.services.replace(alone, target.worker.version);
  const next = await target.restarted();
  await next.until(attempt, 'cancelled');
  assert.equal(next.runner.attempts.get(attempt)?.stopped, 'superseded');
});

test('logs: only the origin can read the log of an attempt', async (t) => {
  const target = await openTarget(t);
  const attempt = await running(target);
  const options = { timestamps: false, follow: false };
  const pieces: Uint8Array[] = [];
  for await (const piece of await target.taken.logs(target.key(attempt), options, target.from)) pieces.push(piece);
  assert.equal(Buffer.concat(pieces).toString(), `log of ${attempt}\n`);
  const others = target.taken.logs(target.key(attempt), options, { ...target.from, uid: 'federation-2' });
  await assert.rejects(others, { code: 'job-gone' });
});

test('restart: after a crash between storing and starting, the next manager starts the job once', async (t) => {
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

test('restart: a restarted manager resumes running attempts without asking the origin, and reports their end', async (t) => {
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

test('restart: an attempt that started before its start was recorded is resumed too, even if its origin is away', async (t) => {
  const target = await openTarget(t);
  const { attempt } = await target.offer();
  await eventually(() => assert.ok(target.runner.attempts.has(attempt)));
  await eventually(async () => assert.ok((await target.get(attempt))?.startedAt !== undefined));
  target.end();
  const { jobs } = target.cluster;
  const record = await jobs.get(target.key(attempt));
  // As if the manager had been killed a moment earlier.
  if (record) await jobs.update(record, record.version, { startedAt: undefined } as never);
  assert.equal((await target.get(attempt))?.startedAt, undefined);
  target.origin.silent = true;
  const next = await target.restarted();
  await eventually(() => assert.equal(next.runner.attempts.get(attempt)?.starts, 2));
});

test('restart: a restarted manager reports unreported results, and reserves no capacity for them', async (t) => {
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

test('restart: a queued job is still queued, and still reported to its origin', async (t) => {
  const target = await openTarget(t);
  const first = await running(target);
  const { attempt } = await target.offer({ epoch: 2, pinned: true });
  const next = await target.restarted();
  const before = next.origin.reports.length;
  await eventually(() => assert.ok(next.origin.reports.slice(before).some((each) => each.attempt.epoch === 2)));
  await eventually(() => next.runner.end(first, { manifest: MANIFEST }));
  await next.until(attempt, 'running');
});

test('report: a worker that has left the federation reports no results', async (t) => {
  const target = await openTarget(t);
  const attempt = await running(target);
  const { federation: _, ...alone } = target.service;
  await target.cluster.services.replace(alone, target.worker.version);
  target.runner.end(attempt, { manifest: MANIFEST });
  assert.equal((await target.until(attempt, 'cancelled')).timeline.at(-1)?.reason, 'Superseded');
});
