import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KnownTargets, minioTargets, type TargetNames } from './rules.ts';

const FAST = 'arn:minio:sqs::OSCAR_FAST:webhook';
const DURABLE = 'arn:minio:sqs:eu-1:OSCAR_DURABLE:webhook';

/** A MinIO that lists these targets, and refuses rules for some of them. */
function minio() {
  const state = {
    listed: [FAST, DURABLE, 'arn:minio:sqs::other:webhook'],
    refused: [] as string[],
    tried: [] as string[],
  };
  const targets = minioTargets({ targets: async () => state.listed }, async (arn) => {
    state.tried.push(arn);
    return !state.refused.includes(arn);
  });
  return { state, targets };
}

const both: TargetNames = new Map([
  ['OSCAR_FAST', FAST],
  ['OSCAR_DURABLE', DURABLE],
]);

test('our two targets are found whatever the region, and each is tried once', async () => {
  const { state, targets } = minio();
  assert.deepEqual(await targets.found(), both);
  assert.deepEqual(await targets.now(), both);
  assert.deepEqual(state.tried, [FAST, DURABLE]);
});

test('one that is listed and not taken is none', async () => {
  const { state, targets } = minio();
  state.refused = [DURABLE];
  assert.deepEqual([...(await targets.found()).keys()], ['OSCAR_FAST']);
  state.refused = [];
  assert.deepEqual(await targets.now(), both);
});

test('after a refusal all are tried again, though they are listed as before', async () => {
  const { state, targets } = minio();
  await targets.found();
  state.refused = [FAST];
  assert.deepEqual(await targets.now(), both);
  assert.deepEqual([...(await targets.anew()).keys()], ['OSCAR_DURABLE']);
});

test('what is known is asked again after its time, also when nothing was missing', async () => {
  let answer = both;
  const ask = async () => answer;
  const [believing, doubting] = [new KnownTargets(ask, 60_000), new KnownTargets(ask, 0)];
  await Promise.all([believing.found(), doubting.found()]);
  answer = new Map();
  assert.deepEqual(await believing.found(), both);
  assert.deepEqual(await doubting.found(), new Map());
});

test('who asks at the same time is answered together, and a store that does not answer is asked again', async () => {
  let asked = 0;
  const targets = new KnownTargets(async () => {
    if (++asked === 1) throw new Error('away');
    return both;
  }, 60_000);
  await Promise.all([assert.rejects(targets.found()), assert.rejects(targets.found())]);
  assert.equal(asked, 1);
  assert.deepEqual(await targets.found(), both);
});
