import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EventTargetCache, type EventTargets } from './event-rules.ts';

const both: EventTargets = new Map([
  ['OSCAR_FAST', 'arn:minio:sqs::OSCAR_FAST:webhook'],
  ['OSCAR_DURABLE', 'arn:minio:sqs:eu-1:OSCAR_DURABLE:webhook'],
]);

test('event targets: the cache expires, also if no target was missing', async () => {
  let answer = both;
  const ask = async () => answer;
  const [believing, doubting] = [new EventTargetCache(ask, 60_000), new EventTargetCache(ask, 0)];
  await Promise.all([believing.get(), doubting.get()]);
  answer = new Map();
  assert.deepEqual(await believing.get(), both);
  assert.deepEqual(await doubting.get(), new Map());
});

test('event targets: concurrent callers share one request, and a failed request is repeated', async () => {
  let asked = 0;
  const targets = new EventTargetCache(async () => {
    if (++asked === 1) throw new Error('away');
    return both;
  }, 60_000);
  await Promise.all([assert.rejects(targets.get()), assert.rejects(targets.get())]);
  assert.equal(asked, 1);
  assert.deepEqual(await targets.get(), both);
});
