import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Secret } from '../lib/secret.ts';
import { minioTrouble, plainTrouble } from './external-store.ts';

const eventsToken = new Secret('s3cret');
const endpoint = 'https://oscar.example.org';

test('external store: the problem lists all settings that MinIO needs, and no secret', () => {
  const { problem, set } = minioTrouble(['OSCAR_FAST', 'OSCAR_DURABLE'], { eventsToken, endpoint }) ?? assert.fail();
  assert.match(problem, /does not report new objects: set this in its environment/);
  assert.deepEqual(set, [
    'MINIO_NOTIFY_WEBHOOK_ENABLE_OSCAR_FAST=on',
    'MINIO_NOTIFY_WEBHOOK_ENDPOINT_OSCAR_FAST=https://oscar.example.org/system/events/storage',
    'MINIO_NOTIFY_WEBHOOK_AUTH_TOKEN_OSCAR_FAST=<OSCAR_EVENTS_TOKEN of the manager>',
    'MINIO_NOTIFY_WEBHOOK_ENABLE_OSCAR_DURABLE=on',
    'MINIO_NOTIFY_WEBHOOK_ENDPOINT_OSCAR_DURABLE=https://oscar.example.org/system/events/storage',
    'MINIO_NOTIFY_WEBHOOK_AUTH_TOKEN_OSCAR_DURABLE=<OSCAR_EVENTS_TOKEN of the manager>',
    'MINIO_NOTIFY_WEBHOOK_QUEUE_DIR_OSCAR_DURABLE=<a directory on a persistent disk>',
  ]);
  assert.doesNotMatch(JSON.stringify({ problem, set }), /s3cret/);
});

test('external store: each missing target is reported, and a missing token too', () => {
  const { set } = minioTrouble(['OSCAR_FAST'], { eventsToken: undefined, endpoint: undefined }) ?? assert.fail();
  assert.deepEqual(set.slice(0, 3), [
    'OSCAR_EVENTS_TOKEN=<one word, for the manager>',
    'MINIO_NOTIFY_WEBHOOK_ENABLE_OSCAR_FAST=on',
    'MINIO_NOTIFY_WEBHOOK_ENDPOINT_OSCAR_FAST=<this manager>/system/events/storage',
  ]);
  assert.doesNotMatch(set.join(), /DURABLE|QUEUE_DIR/);
});

test('external store: no problem for a complete store, and one if its events would be rejected', () => {
  assert.equal(minioTrouble([], { eventsToken, endpoint }), undefined);
  assert.match(minioTrouble([], { eventsToken: undefined, endpoint })?.problem ?? '', /^OSCAR_EVENTS_TOKEN is not set/);
  const arn = 'arn:minio:sqs::A:webhook';
  assert.equal(plainTrouble([], { eventsToken: undefined, endpoint, storeEventTargets: [] }), undefined);
  assert.match(
    plainTrouble([], { eventsToken: undefined, endpoint, storeEventTargets: [arn] })?.problem ?? '',
    /^OSCAR_EVENTS_TOKEN is not set/,
  );
  assert.match(plainTrouble([arn], { eventsToken, endpoint, storeEventTargets: [arn] })?.set.join() ?? '', /sqs::A/);
});
