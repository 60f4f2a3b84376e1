import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  GetBucketNotificationConfigurationCommand,
  PutBucketNotificationConfigurationCommand,
  type QueueConfiguration,
} from '@aws-sdk/client-s3';
import { storeClient } from '../../src/ports/conformance/object-store-under-test.fixture.ts';
import { eventually, keyOf, reasonOf, service } from '../support/jobs.ts';
import { ADMIN } from '../support/manager.ts';
import { ROOT } from './minio.ts';
import { Scene } from './scene.ts';

const COPY = 'cp "$INPUT_FILE_PATH" "$TMP_OUTPUT_DIR"';

/** Over HTTP to MinIO itself, because a manager that is down cannot give out keys. */
const root = ({ minio }: Scene) => storeClient(minio, ROOT);

async function rulesOf(scene: Scene, bucket: string): Promise<QueueConfiguration[]> {
  const asked = new GetBucketNotificationConfigurationCommand({ Bucket: bucket });
  return (await root(scene).client.send(asked)).QueueConfigurations ?? [];
}

test('events: a file that arrives while the manager is down becomes one job when it is back', {
  timeout: 120_000,
}, async () => {
  await using scene = await Scene.start();
  const { outside, minio } = scene;
  await outside.create(ADMIN, service('late', COPY));
  const { pid } = minio;
  await scene.stopManager();
  await root(scene).put('late', 'in/a', 'first');
  await root(scene).put('late', 'in/b', 'second');
  await scene.startManager();
  const jobs = await outside.allEnded('late', 2);
  assert.deepEqual(jobs.map(keyOf).toSorted(), ['in/a', 'in/b']);
  assert.equal(await outside.get(ADMIN, 'late/out/a'), 'first');
  assert.equal(minio.pid, pid, 'MinIO was not restarted');
});

test('events: a file that MinIO could not report before it was killed becomes one job', {
  timeout: 120_000,
}, async () => {
  await using scene = await Scene.start();
  const { outside, minio } = scene;
  await outside.create(ADMIN, service('kept', COPY));
  await scene.stopManager();
  await root(scene).put('kept', 'in/a', 'first');
  await eventually(() => assert.ok(minio.undelivered() > 0), 20_000);
  await minio.kill();
  await minio.start();
  await scene.startManager();
  await outside.allEnded('kept', 1);
  assert.equal(await outside.get(ADMIN, 'kept/out/a'), 'first');
});

test('create: while MinIO is away, a service is not created and leaves nothing; afterwards it is created', {
  timeout: 120_000,
}, async () => {
  await using scene = await Scene.start();
  const { outside, minio } = scene;
  await minio.kill();
  const refused = await outside.call('POST', '/system/services', { as: ADMIN, body: service('away', COPY) });
  assert.equal(refused.status, 503, refused.text);
  assert.match(refused.text, /object store cannot be used now.*nothing listens there/);
  assert.equal((await outside.call('GET', '/system/services/away', { as: ADMIN })).status, 404);
  assert.equal((await outside.call('GET', '/health')).status, 200, 'the manager itself is well');
  await minio.start();
  await outside.create(ADMIN, service('away', COPY));
  await outside.put(ADMIN, 'away/in/a', 'text');
  await outside.onlyJob('away');
  assert.equal(await outside.get(ADMIN, 'away/out/a'), 'text');
});

test('staging: a job waits while MinIO is away', { timeout: 120_000 }, async () => {
  await using scene = await Scene.start();
  const { outside, minio } = scene;
  const token = await outside.create(ADMIN, service('waits', COPY));
  await outside.put(ADMIN, 'waits/in/a', 'text');
  const [{ id } = { id: '' }] = await outside.allEnded('waits', 1);
  assert.notEqual(id, '');
  await minio.kill();
  const object = { key: 'in%2Fa', size: 4, eTag: 'x', sequencer: '18E86E37AEAE28B9' };
  const record = {
    eventSource: 'minio:s3',
    eventName: 's3:ObjectCreated:Put',
    s3: { bucket: { name: 'waits' }, object },
  };
  const again = await outside.submit(token, 'waits', { Key: 'waits/in/a', Records: [record] });
  assert.notEqual(again, id);
  await eventually(() =>
    assert.ok(scene.manager.log.some(({ msg, level }) => msg === 'job operation failed' && level === 40)),
  );
  assert.equal((await outside.job(ADMIN, 'waits', again)).phase, 'Running');
  await minio.start();
  const ended = await outside.ended('waits', again);
  assert.deepEqual([ended.state, reasonOf(ended)], ['succeeded', 'Completed']);
});

test('start: a manager starts while MinIO is away, reports it, and uses MinIO when it is back', {
  timeout: 120_000,
}, async () => {
  await using scene = await Scene.start();
  const { outside, minio } = scene;
  await scene.stopManager();
  await minio.kill();
  await scene.startManager();
  assert.ok(scene.manager.log.some(({ msg }) => /object store does not answer/.test(String(msg))));
  assert.equal((await outside.call('GET', '/health')).status, 200);
  await minio.start();
  await outside.create(ADMIN, service('again', COPY));
  await outside.put(ADMIN, 'again/in/a', 'text');
  await outside.onlyJob('again');
});

test('notification rules: rules of others are kept, and ours are restored when they are removed', {
  timeout: 120_000,
}, async () => {
  await using scene = await Scene.start();
  const { outside, minio } = scene;
  const { pid } = minio;
  await outside.create(ADMIN, service('rules', COPY));
  const ours = await rulesOf(scene, 'rules');
  assert.deepEqual(
    ours.map(({ QueueArn, Events, Filter }) => [QueueArn, Events, Filter?.Key?.FilterRules]),
    ['OSCAR_FAST', 'OSCAR_DURABLE'].map((target) => [
      `arn:minio:sqs::${target}:webhook`,
      ['s3:ObjectCreated:*'],
      [{ Name: 'prefix', Value: 'in/' }],
    ]),
  );
  const theirs: QueueConfiguration = {
    Id: 'of the operator',
    QueueArn: 'arn:minio:sqs::OSCAR_FAST:webhook',
    Events: ['s3:ObjectRemoved:*'],
    Filter: { Key: { FilterRules: [{ Name: 'suffix', Value: '.log' }] } },
  };
  const set = async (QueueConfigurations: QueueConfiguration[]) => {
    const NotificationConfiguration = { QueueConfigurations };
    await root(scene).client.send(
      new PutBucketNotificationConfigurationCommand({ Bucket: 'rules', NotificationConfiguration }),
    );
  };
  await set([...ours, theirs]);
  const more = { input: [{ storage_provider: 'minio.default', path: 'rules/other' }], output: [] };
  await outside.create(ADMIN, service('second', COPY, more));
  assert.equal((await rulesOf(scene, 'rules')).length, 5);
  assert.equal((await outside.call('DELETE', '/system/services/second', { as: ADMIN })).status, 204);
  assert.deepEqual(
    (await rulesOf(scene, 'rules')).map(({ Id = '' }) => Id).toSorted(),
    [...ours, theirs].map(({ Id = '' }) => Id).toSorted(),
  );

  await set([theirs]);
  await scene.stopManager();
  await scene.startManager();
  await eventually(async () => assert.equal((await rulesOf(scene, 'rules')).length, 3));
  await outside.put(ADMIN, 'rules/in/a', 'text');
  await outside.onlyJob('rules');
  assert.deepEqual([minio.isRunning, minio.pid], [true, pid], 'MinIO was never restarted (R1)');
});

test('notification targets: MinIO without targets is used, and the manager reports what to set', {
  timeout: 120_000,
}, async () => {
  await using scene = await Scene.start(() => ({}));
  const { outside } = scene;
  await outside.create(ADMIN, service('mute', COPY));
  assert.deepEqual(await rulesOf(scene, 'mute'), []);
  const said = scene.manager.log.find(({ msg }) => /does not report new objects/.test(String(msg)));
  const set = said?.['set'] as string[];
  for (const part of [
    'ENABLE_OSCAR_FAST=on',
    'AUTH_TOKEN_OSCAR_FAST',
    'AUTH_TOKEN_OSCAR_DURABLE',
    'QUEUE_DIR_OSCAR_DURABLE',
  ])
    assert.match(set.join('\n'), new RegExp(`^MINIO_NOTIFY_WEBHOOK_${part}`, 'm'));
});
