import assert from 'node:assert/strict';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import type { Attempt } from '../../model/job/index.ts';
import { submitJob } from '../intake/submit.ts';
import { ALICE, openJobs, type TestJobs } from '../jobs.fixture.ts';
import { readLog } from './logs.ts';

const alice = { kind: 'user', uid: ALICE, name: ALICE, groups: [], operator: false } as const;

async function submit(jobs: TestJobs) {
  return submitJob(alice, await jobs.service('demo'), Buffer.from('{}'), 'job', jobs);
}

test('logs: a log can be followed before the script starts', async () => {
  await using jobs = await openJobs();
  const held = Promise.withResolvers<void>();
  const start = jobs.runner.start.bind(jobs.runner);
  jobs.runner.start = async (attempt: Attempt) => {
    await held.promise;
    await start(attempt);
  };
  const key = await submit(jobs);
  const record = await jobs.until(key, 'running');
  assert.equal(record.attempts.length, 1);
  let asked = 0;
  const logs = jobs.runner.logs.bind(jobs.runner);
  jobs.runner.logs = (name) => {
    // Only now: it has been asked for the log of something that it does not know.
    if (asked++ === 0) setImmediate(() => held.resolve());
    return logs(name);
  };
  assert.equal(await text(readLog(record, { timestamps: false, follow: true }, jobs)), `log of ${key.id}\n`);
  assert.ok(asked > 1);
});

test('logs: without follow, the log of a script that has not started is empty', async () => {
  await using jobs = await openJobs(0);
  const record = await jobs.store.get(await submit(jobs));
  assert.ok(record);
  assert.equal(await text(readLog(record, { timestamps: false, follow: false }, jobs)), '');
});

test('logs: the log of an unknown attempt is empty, with or without follow', async () => {
  await using jobs = await openJobs();
  const key = await submit(jobs);
  await jobs.until(key, 'running');
  await jobs.scheduler.cancel(key, 'cancelled');
  const record = await jobs.until(key, 'cancelled');
  await jobs.runner.forget(key.id);
  for (const follow of [true, false]) {
    assert.equal(await text(readLog(record, { timestamps: false, follow }, jobs)), '');
  }
});

test('logs: following ends when the client disconnects', async () => {
  await using jobs = await openJobs(0);
  const record = await jobs.store.get(await submit(jobs));
  assert.ok(record);
  const leaving = new AbortController();
  const reading = text(readLog(record, { timestamps: false, follow: true, signal: leaving.signal }, jobs));
  leaving.abort();
  assert.equal(await reading, '');
});
