import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MinioAdmin } from '../../src/adapters/object-stores/minio/admin-api.ts';
import { PlainS3Store } from '../../src/adapters/object-stores/s3/index.ts';
import { SignedHttpClient } from '../../src/adapters/object-stores/s3/signed-http-client.ts';
import { Secret } from '../../src/lib/secret.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { describeObjectStore } from '../../src/ports/conformance/object-store.conformance.ts';
import {
  bucket,
  type StoreUnderTest,
  storeClient,
} from '../../src/ports/conformance/object-store-under-test.fixture.ts';
import { BOB } from '../support/issuer-users.ts';
import { Outside, service } from '../support/jobs.ts';
import { lastingPorts as freePorts } from '../support/lasting-port.ts';
import { ADMIN, startTestManager } from '../support/manager.ts';
import { startPeople } from '../support/people.ts';
import { Hook } from './hook.ts';
import { bothAt, EVENTS_TOKEN, Minio, ROOT } from './minio.ts';

/** A user of MinIO who may use all of S3 and has no administrative rights. */
const OPERATOR = { accessKey: new Secret('operator'), secretKey: new Secret('operator-secret') };

const DURABLE = 'arn:minio:sqs::OSCAR_DURABLE:webhook';
const FAST = 'arn:minio:sqs::OSCAR_FAST:webhook';

describeObjectStore('MinIO without its admin API', startUnderTest, {
  users: 'its operator may not make users',
  quotas: 'S3 has no quotas',
});

async function makeOperator({ endpoint, region }: Minio): Promise<void> {
  const requests = new SignedHttpClient({ endpoint, region, verify: true });
  const admin = new MinioAdmin({ requests, keys: ROOT });
  await admin.putUser('operator', OPERATOR.secretKey);
  // Shortly after its start, MinIO does not know its own policies.
  await eventually(() => admin.attach(['readwrite'], { user: 'operator' }));
  requests.close();
}

async function startUnderTest(): Promise<StoreUnderTest> {
  const hook = new Hook();
  const url = await hook.listen();
  const minio = await Minio.start({ hooks: { OSCAR_DURABLE: { url: `${url}/durable`, durable: true } } });
  await makeOperator(minio);
  const { endpoint, region } = minio;
  const store = openPlain(minio, [DURABLE]);
  const client = storeClient(minio, OPERATOR);
  let last = 0;
  return {
    store,
    endpoint,
    region,
    operator: OPERATOR,
    writesAs: 'operator',
    refusesPatterns: true,
    /** Events of the durable target arrive in order: when a later one has arrived, all earlier ones have too. */
    async reported(name) {
      const key = `in/${++last}`;
      await store.createBucket(bucket('later-than-all'));
      await store.subscribe({ bucket: 'later-than-all', prefix: 'in/', subscriber: 'test' });
      await client.put('later-than-all', key);
      const isLast = (event: { key: string; bucket: string }) => event.key === key && event.bucket === 'later-than-all';
      await eventually(() => assert.ok(hook.events('/durable').some(isLast)), 20_000, 20);
      const events = hook.events('/durable').filter((event) => event.bucket === name);
      return events.map(({ key: of, principal = '' }) => ({ key: of, principal }));
    },
    async close() {
      store.close();
      await minio.stop();
      hook.close();
    },
  };
}

const openPlain = ({ endpoint, region }: Minio, targets: readonly string[]) =>
  new PlainS3Store({
    endpoint,
    publicEndpoint: endpoint,
    region,
    verify: true,
    keys: OPERATOR,
    managerName: 'oscar',
    targets,
  });

test('notification targets: missing targets are named, and no rule is left', async (t) => {
  const minio = await Minio.start({ hooks: { OSCAR_FAST: { url: 'http://127.0.0.1:1/', durable: false } } });
  t.after(() => minio.stop());
  await makeOperator(minio);
  const store = openPlain(minio, [FAST, DURABLE]);
  t.after(() => store.close());
  assert.deepEqual(await store.missingTargets(), [DURABLE]);
  assert.equal(await store.noJobKeys(), undefined);
});

test('plain S3: a manager works with a store without an admin API', { timeout: 120_000 }, async (t) => {
  const [port = 0] = await freePorts(1);
  const minio = await Minio.start({ hooks: bothAt(`http://127.0.0.1:${port}/system/events/storage`) });
  t.after(() => minio.stop());
  await makeOperator(minio);
  const { issuer, alice, bob, settings } = await startPeople();
  t.after(() => issuer.stop());
  await using manager = await startTestManager({
    ...settings,
    MINIO_ENDPOINT: minio.endpoint,
    MINIO_ACCESS_KEY: 'operator',
    MINIO_SECRET_KEY: 'operator-secret',
    OSCAR_EXTERNAL_STORE: 's3',
    OSCAR_STORE_EVENT_TARGETS: `${FAST},${DURABLE}`,
    OSCAR_EVENTS_TOKEN: EVENTS_TOKEN,
    OSCAR_LISTEN: `127.0.0.1:${port}`,
  });
  const outside = new Outside(manager.url);
  const presigned = async (as: string, name: string, operation: string, object_key: string) => {
    const body = { object_key, operation };
    const { status, text, json } = await outside.call('POST', `/system/buckets/${name}/presign`, { as, body });
    assert.equal(status, 200, text);
    return (json() as { url: string }).url;
  };

  const mine = await outside.provider(alice);
  assert.deepEqual([mine.access_key, mine.secret_key], ['', ''], 'nobody is given keys that do not work, or others’');
  const rotated = await outside.call('POST', '/system/config/keys', { as: alice });
  assert.equal(rotated.status, 400);
  assert.match(rotated.text, /no users of its own: reach your buckets by presigned addresses/);
  assert.equal((await outside.provider(ADMIN)).access_key, 'operator');

  const COPY = 'cp "$INPUT_FILE_PATH" "$TMP_OUTPUT_DIR"';
  await outside.create(alice, service('plain', COPY, { visibility: 'restricted', allowed_users: [BOB.sub] }));
  const up = await fetch(await presigned(bob, 'plain', 'upload', 'in/his.txt'), { method: 'PUT', body: 'of Bob' });
  assert.equal(up.status, 200);
  const job = await outside.onlyJob('plain');
  assert.deepEqual([job.state, job.trigger, job.object?.key], ['succeeded', 'storage', 'in/his.txt']);
  const down = await fetch(await presigned(alice, 'plain', 'download', 'out/his.txt'));
  assert.equal(await down.text(), 'of Bob');

  const body = { bucket_name: 'alices', visibility: 'private' };
  assert.equal((await outside.call('POST', '/system/buckets', { as: alice, body })).status, 201);
  const names = async (as: string) =>
    ((await outside.call('GET', '/system/buckets', { as })).json() as { bucket_name: string }[]).map(
      (b) => b.bucket_name,
    );
  assert.deepEqual(await names(alice), ['alices', 'plain']);
  assert.deepEqual(await names(bob), ['plain']);
  const refused = await outside.call('POST', '/system/buckets/alices/presign', {
    as: bob,
    body: { object_key: 'k', operation: 'download' },
  });
  assert.equal(refused.status, 403);
  assert.equal((await outside.call('DELETE', '/system/services/plain', { as: alice })).status, 204);
  assert.deepEqual(await names(ADMIN), ['alices']);
});
