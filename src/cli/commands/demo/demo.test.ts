import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aRemoteJob, decision } from '../jobs/remote-job.fixture.ts';
import { DemoProgress } from './demo.ts';

const job = (number: string, more: Parameters<typeof aRemoteJob>[0]) =>
  aRemoteJob({ id: number, object: { bucket: 'grey0', key: `in/picture-x-${number}.ppm` }, ...more });

test('demo: each change is printed once, and the status line shows what each cluster runs', () => {
  const progress = new DemoProgress(3, 0);
  const home = job('01', { state: 'running' });
  const sent = job('02', {
    state: 'delegated',
    attempts: [{ place: 'a' }],
    decisions: [decision('a/grey1', [], 'random')],
  });
  const full = job('03', { state: 'queued', attempts: [], decisions: [decision(undefined, [])] });
  assert.deepEqual(progress.update([home, sent, full], 1_500), [
    ' 1.5 s  01 runs on home',
    ' 1.5 s  02 runs on a, chosen by "random"',
    ' 1.5 s  03 waits: all clusters are full',
  ]);
  assert.equal(progress.line, 'a: 02 | home: 01 | 0 of 3 done');
  const done = job('01', {});
  assert.deepEqual(progress.update([done, sent, full], 2_000), [' 2.0 s  01 is grey, processed on home']);
  assert.equal(progress.isOver, false);
});

test('demo: it is over when all expected jobs have been seen and have ended', () => {
  const progress = new DemoProgress(2, 0);
  progress.update([job('01', {})], 0);
  assert.equal(progress.isOver, false);
  assert.deepEqual(progress.update([job('02', { state: 'failed', message: 'exit code 1' })], 0), [
    '  0 ms  02 failed on home: exit code 1',
  ]);
  assert.equal(progress.isOver, true);
});
