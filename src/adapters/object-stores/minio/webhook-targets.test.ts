import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EventTargets } from '../s3/event-rules.ts';
import { createWebhookTargetCache } from './webhook-targets.ts';

const FAST = 'arn:minio:sqs::OSCAR_FAST:webhook';
const DURABLE = 'arn:minio:sqs:eu-1:OSCAR_DURABLE:webhook';

/** A MinIO that lists these targets, and refuses rules for some of them. */
function minio() {
  const state = {
    listed: [FAST, DURABLE, 'arn:minio:sqs::other:webhook'],
    refused: [] as string[],
    tried: [] as string[],
  };
  const targets = createWebhookTargetCache({ targets: async () => state.listed }, async (arn) => {
    state.tried.push(arn);
    return !state.refused.includes(arn);
  });
  return { state, targets };
}

const both: EventTargets = new Map([
  ['OSCAR_FAST', FAST],
  ['OSCAR_DURABLE', DURABLE],
]);

test('webhook targets: both are found in any region, and each is tested once', async () => {
  const { state, targets } = minio();
  assert.deepEqual(await targets.get(), both);
  assert.deepEqual(await targets.refresh(), both);
  assert.deepEqual(state.tried, [FAST, DURABLE]);
});

test('webhook targets: a listed target that the store rejects does not count', async () => {
  const { state, targets } = minio();
  state.refused = [DURABLE];
  assert.deepEqual([...(await targets.get()).keys()], ['OSCAR_FAST']);
  state.refused = [];
  assert.deepEqual(await targets.refresh(), both);
});

test('webhook targets: after a rejection all are tested again, although they are still listed', async () => {
  const { state, targets } = minio();
  await targets.get();
  state.refused = [FAST];
  assert.deepEqual(await targets.refresh(), both);
  assert.deepEqual([...(await targets.refreshAfterRejection()).keys()], ['OSCAR_DURABLE']);
});
