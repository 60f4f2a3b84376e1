import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decision, toldJob } from '../jobs/told-job.fixture.ts';
import { DemoProgress } from './demo.ts';

const job = (number: string, more: Parameters<typeof toldJob>[0]) =>
  toldJob({ id: number, object: { bucket: 'grey0', key: `in/picture-x-${number}.ppm` }, ...more });

test('what is new is told once, and who runs what is in the line', () => {
  const course = new DemoProgress(3, 0);
  const home = job('01', { state: 'running' });
  const sent = job('02', {
    state: 'delegated',
    attempts: [{ place: 'a' }],
    decisions: [decision('a/grey1', [], 'random')],
  });
  const full = job('03', { state: 'queued', attempts: [], decisions: [decision(undefined, [])] });
  assert.deepEqual(course.see([home, sent, full], 1_500), [
    ' 1.5 s  01 runs at home',
    ' 1.5 s  02 runs at a: "random" chose it',
    ' 1.5 s  03 waits: all of them are full',
  ]);
  assert.equal(course.line, 'a: 02 | home: 01 | 0 of 3 done');
  const done = job('01', {});
  assert.deepEqual(course.see([done, sent, full], 2_000), [' 2.0 s  01 is grey, from home']);
  assert.equal(course.isOver, false);
});

test('it is over when all have ended, and not while some have not been seen', () => {
  const course = new DemoProgress(2, 0);
  course.see([job('01', {})], 0);
  assert.equal(course.isOver, false);
  assert.deepEqual(course.see([job('02', { state: 'failed', message: 'exit code 1' })], 0), [
    '  0 ms  02 failed at home: exit code 1',
  ]);
  assert.equal(course.isOver, true);
});
