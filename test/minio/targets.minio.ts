import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import {
  GetBucketNotificationConfigurationCommand,
  PutBucketNotificationConfigurationCommand,
} from '@aws-sdk/client-s3';
import { eventually as tried } from '../../src/ports/conformance/eventually.ts';
import { storeClient } from '../../src/ports/conformance/object-store-under-test.fixture.ts';
import { eventually, keyOf, Outside, service } from '../support/jobs.ts';
import { ADMIN, PASSWORD, startTestManager, temporaryDirectory } from '../support/manager.ts';
import { Minio, ROOT } from './minio.ts';
import { Scene } from './scene.ts';
import { openStore } from './under-test.ts';
import { setAhead, Way } from './way.ts';

const COPY = 'cp "$INPUT_FILE_PATH" "$TMP_OUTPUT_DIR"';
const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

const SET = ['OSCAR_FAST', 'OSCAR_DURABLE'].flatMap((target) => [
  `MINIO_NOTIFY_WEBHOOK_ENABLE_${target}=on`,
  `MINIO_NOTIFY_WEBHOOK_ENDPOINT_${target}=<this manager>/system/events/storage`,
  `MINIO_NOTIFY_WEBHOOK_AUTH_TOKEN_${target}=<OSCAR_EVENTS_TOKEN of the manager>`,
]);
SET.push('MINIO_NOTIFY_WEBHOOK_QUEUE_DIR_OSCAR_DURABLE=<a directory on a persistent disk>');

async function arnsOf({ minio }: Pick<Scene, 'minio'>, bucket: string): Promise<string[]> {
  const asked = new GetBucketNotificationConfigurationCommand({ Bucket: bucket });
  const { QueueConfigurations = [] } = await storeClient(minio, ROOT).client.send(asked);
  return QueueConfigurations.map(({ QueueArn = '' }) => QueueArn).toSorted();
}

const BOTH = ['arn:minio:sqs::OSCAR_DURABLE:webhook', 'arn:minio:sqs::OSCAR_FAST:webhook'];

interface Told {
  readonly object_store_events?: { readonly problem: string; readonly set: readonly string[] };
}

const told = async (outside: Outside) =>
  ((await outside.call('GET', '/system/info', { as: ADMIN })).json() as Told).object_store_events;

/** What `oscar doctor` prints, as the administrator of this manager. */
async function doctor(t: TestContext, url: string): Promise<{ readonly code: number; readonly text: string }> {
  const home = mkdtempSync(join(tmpdir(), 'oscar-home-'));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  const path = join(home, 'config.yaml');
  const cluster = { endpoint: url, auth_user: 'oscar', auth_password: PASSWORD, ssl_verify: true };
  writeFileSync(path, JSON.stringify({ oscar: { here: cluster }, default: 'here' }), { mode: 0o600 });
  const env = { ...process.env, HOME: home, OSCAR_CONFIG_FILE: path };
  return new Promise((resolve) => {
    execFile(process.execPath, [MAIN, 'doctor'], { env }, (error, stdout, stderr) =>
      resolve({ code: Number(error?.code ?? 0), text: stdout + stderr }),
    );
  });
}

test('notification targets: MinIO without its targets is reported once, services are created, and the rules return with the targets', {
  timeout: 180_000,
}, async (t) => {
  await using scene = await Scene.start();
  const { outside, minio, manager } = scene;
  await outside.create(ADMIN, service('first', COPY));
  assert.deepEqual(await arnsOf(scene, 'first'), BOTH);
  assert.equal(await told(outside), undefined);
  assert.doesNotMatch((await doctor(t, manager.url)).text, / events /);

  await minio.kill();
  await minio.start({});
  // The manager assumes that the targets exist, so its first requests are rejected.
  await outside.create(ADMIN, service('second', COPY));
  const input = [{ storage_provider: 'minio.default', path: 'first/other' }];
  await outside.create(ADMIN, service('third', COPY, { input, output: [] }));
  assert.deepEqual(await arnsOf(scene, 'second'), []);
  const trouble = await told(outside);
  assert.match(trouble?.problem ?? '', /does not report new objects: set this in its environment/);
  assert.deepEqual(trouble?.set.toSorted(), SET.toSorted());
  const asked = await doctor(t, manager.url);
  assert.notEqual(asked.code, 0);
  assert.match(asked.text, /events.*does not report new objects.*MINIO_NOTIFY_WEBHOOK_ENABLE_OSCAR_FAST=on/s);
  const said = () => manager.log.filter(({ msg }) => /does not report new objects/.test(String(msg)));
  await told(outside);
  assert.equal(said().length, 1, 'once, however often it is asked');
  assert.equal((await outside.call('DELETE', '/system/services/third', { as: ADMIN })).status, 204);

  await minio.kill();
  await minio.start(scene.hooks);
  await eventually(async () => assert.equal(await told(outside), undefined));
  for (const name of ['first', 'second']) {
    await eventually(async () => assert.deepEqual(await arnsOf(scene, name), BOTH, name));
  }
  assert.ok(manager.log.some(({ msg }) => msg === 'the object store reports new objects again'));
  // MinIO may lose them again while it reads its buckets; they are there for good a little later.
  await tried(
    async () => {
      await outside.put(ADMIN, 'second/in/a', 'text');
      assert.equal(await outside.get(ADMIN, 'second/out/a'), 'text');
    },
    60_000,
    1_000,
  );
});

test('notification rules: a rule that MinIO forgets during its start is restored', async () => {
  await using scene = await Scene.start();
  await scene.outside.create(ADMIN, service('forgotten', COPY));
  assert.deepEqual(await arnsOf(scene, 'forgotten'), BOTH);
  const forget = new PutBucketNotificationConfigurationCommand({
    Bucket: 'forgotten',
    NotificationConfiguration: {},
  });
  await storeClient(scene.minio, ROOT).client.send(forget);
  await tried(async () => assert.deepEqual(await arnsOf(scene, 'forgotten'), BOTH), 90_000, 500);
});

test('start: MinIO reports its uptime, also after a restart', async (t) => {
  const minio = await Minio.start();
  t.after(() => minio.stop());
  const store = openStore(minio);
  t.after(() => store.close());
  await tried(async () => assert.ok((await store.upFor()) >= 3_000));
  await minio.kill();
  const again = performance.now();
  await minio.start();
  const up = await store.upFor();
  // MinIO counts whole seconds.
  assert.ok(up <= performance.now() - again + 1_000, `${up}`);
});

test('sweep: a file in a MinIO without targets becomes a job', { timeout: 180_000 }, async (t) => {
  const minio = await Minio.start();
  t.after(() => minio.stop());
  using way = new Way(minio.endpoint);
  const MINIO_ENDPOINT = await way.listen();
  const settings = { ...minio.settings, MINIO_ENDPOINT, MINIO_PUBLIC_ENDPOINT: minio.endpoint };
  const directory = temporaryDirectory();
  t.after(() => rmSync(directory, { recursive: true, force: true }));

  const started = async () => {
    const manager = await startTestManager(settings, directory);
    return { outside: new Outside(manager.url), stop: () => manager.stop() };
  };

  const first = await started();
  await first.outside.create(ADMIN, service('mute', COPY));
  await first.outside.put(ADMIN, 'mute/in/a', 'one');
  await first.outside.put(ADMIN, 'mute/in/b', 'two');
  await first.stop();

  // Objects may be reported up to two minutes late. A sweep runs at each start.
  setAhead(way, 5 * 60_000);
  const second = await started();
  const jobs = await second.outside.allEnded('mute', 2);
  assert.deepEqual(jobs.map((job) => `${keyOf(job)} ${job.state} ${job.trigger}`).toSorted(), [
    'in/a succeeded storage',
    'in/b succeeded storage',
  ]);
  assert.equal(await second.outside.get(ADMIN, 'mute/out/a'), 'one');
  await second.stop();
});
