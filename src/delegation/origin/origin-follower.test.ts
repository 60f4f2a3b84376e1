import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { changedIn } from '../../lib/changed-in.fixture.ts';
import type { Version } from '../../lib/version.ts';
import type { JobKey, JobRecord } from '../../model/job/index.ts';
import type { AttemptKey, Report } from '../../peers/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { idOf, openScene, type Scene } from './origin.fixture.ts';
import { OriginFollower } from './origin-follower.ts';
import { failure } from './scripted-target.fixture.ts';

const isFinal = ({ state }: JobRecord) => ['succeeded', 'failed', 'cancelled'].includes(state);

/** A coordinator with two managers: one leads, and members send their requests to the other. */
async function scene(t: TestContext): Promise<Scene & { desk: OriginFollower }> {
  const opened = await openScene();
  t.after(() => opened[Symbol.asyncDispose]());
  const desk = new OriginFollower(opened.manager.current.deps);
  for (const cluster of ['b', 'c']) {
    const proof = () => opened.proof(cluster);
    opened.target(cluster).origin = {
      permit: async (attempt: AttemptKey) => desk.permit(attempt, await proof()),
      report: async (attempt: AttemptKey, report: Report) => desk.report(attempt, report, await proof()),
    };
  }
  return { ...opened, desk };
}

/** Creates a job that a member accepts. The leader is notified of all changes of its record. */
async function delegated(our: Scene): Promise<JobKey> {
  our.fill();
  const key = await our.submit();
  const notify = async () => {
    const record = await our.store.get(key);
    const { delegator } = our.manager.current;
    if (record) delegator.onChanged(record);
    else delegator.onRemoved(key);
  };
  // The scene may be disposed while a notification is in progress.
  our.store.onChange(() => void notify().catch(() => undefined));
  await eventually(() => assert.equal(our.target('b').taken.size, 1));
  await notify();
  return key;
}

test('follower: the leader commits results that were reported to another manager', async (t) => {
  const our = await scene(t);
  const key = await delegated(our);
  const manifest = await our.stage(our.target('b').last, { 'a.txt': 'A' });
  const finishedAt = our.clock.now();
  const end = { exitCode: 0, reason: 'Completed', message: 'done', manifest, finishedAt } as const;
  await our.target('b').says({ state: 'succeeded', ...end });
  const last = await our.until(key, isFinal);
  assert.equal(last.state, 'succeeded');
  assert.deepEqual(our.outputs(), ['out/a.txt']);
  await eventually(() => assert.deepEqual(our.staged(), []));
});

test('follower: a manager with an outdated record reads the store before it rejects a permit or a report', async (t) => {
  const our = await scene(t);
  const key = await delegated(our);
  const { deps } = our.manager.current;
  // The record from before the offer, as in an outdated cache; only a fresh read returns the current one.
  const before: JobRecord = { ...(await our.job(key)), state: 'queued', epoch: 0, version: '0' as Version };
  const late = changedIn(deps.store, { get: async () => before });
  const desk = new OriginFollower({ ...deps, store: late });
  const attempt = { job: key, epoch: 1 };
  await desk.permit(attempt, await our.proof('b'));
  await desk.report(attempt, { state: 'running', startedAt: 1 }, await our.proof('b'));
  assert.equal((await our.job(key)).message, 'the script runs');
  await assert.rejects(desk.permit({ job: key, epoch: 2 }, await our.proof('b')), { code: 'fenced' });
});

test('follower: a failure that was reported to another manager ends the job, and the leader empties its staging area', async (t) => {
  const our = await scene(t);
  const key = await delegated(our);
  await our.stage(our.target('b').last, { 'a.txt': 'A' });
  const ended = our.manager.current.delegator.outstanding((await our.job(key)).serviceUid, idOf('b'));
  assert.equal(await ended, 1);
  await our.target('b').says(failure(our.clock.now()));
  assert.equal((await our.job(key)).state, 'failed');
  await eventually(() => assert.deepEqual(our.staged(), []));
  const { serviceUid } = await our.job(key);
  assert.equal(await our.manager.current.delegator.outstanding(serviceUid, idOf('b')), 0);
});

test('follower: the leader offers a job that was released at another manager to the next member', async (t) => {
  const our = await scene(t);
  const key = await delegated(our);
  await our.target('b').says({ state: 'released', reason: 'NoRoom', message: 'no room after all' });
  const record = await our.until(key, ({ epoch, state }) => epoch === 2 && state === 'delegated');
  assert.equal(record.placement?.member, idOf('c'));
});

test('follower: reports to another manager renew the lease, which expires when the member is silent', async (t) => {
  const our = await scene(t);
  const key = await delegated(our);
  for (let words = 0; words < 4; words++) {
    our.clock.pass(80_000);
    await our.target('b').says({ state: 'running', startedAt: 1 });
  }
  assert.equal((await our.job(key)).epoch, 1);
  await our.passing(async () => assert.equal((await our.job(key)).epoch, 2), 5_000);
});

test('follower: every manager can count the attempts of a member', async (t) => {
  const our = await scene(t);
  const key = await delegated(our);
  const { serviceUid } = await our.job(key);
  assert.deepEqual(
    [await our.desk.outstanding(serviceUid, idOf('b')), await our.desk.outstanding(serviceUid, idOf('c'))],
    [1, 0],
  );
  await our.target('b').says(failure(our.clock.now()));
  assert.equal(await our.desk.outstanding(serviceUid, idOf('b')), 0);
});

test('follower: the leader forgets the attempt of a removed job', async (t) => {
  const our = await scene(t);
  const key = await delegated(our);
  const { serviceUid } = await our.job(key);
  await our.store.removeService(serviceUid);
  await eventually(async () => assert.equal(await our.manager.current.delegator.outstanding(serviceUid, idOf('b')), 0));
});
