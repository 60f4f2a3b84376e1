import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  GetBucketNotificationConfigurationCommand,
  GetBucketTaggingCommand,
  ListBucketsCommand,
} from '@aws-sdk/client-s3';
import { keysOf, storeClient } from '../../src/ports/conformance/object-store-under-test.fixture.ts';
import { bothAt, Minio, ROOT } from '../minio/minio.ts';
import { ALICE, BOB, CAROL } from '../support/issuer-users.ts';
import { eventually, Outside } from '../support/jobs.ts';
import { lastingPorts as freePorts } from '../support/lasting-port.ts';
import { ADMIN, startTestManager, type TestManager } from '../support/manager.ts';
import { startPeople } from '../support/people.ts';
import { ControlPlane } from './control-plane.ts';
import {
  ALICES_KEYS,
  ALICES_NAMESPACE,
  finishedJobOf,
  layOut,
  NOBODYS_JOB,
  TOKEN,
  waitingJobOf,
} from './go-cluster.ts';
import { managerSettings } from './manager-settings.ts';
import { SERVICES_NAMESPACE } from './testbed.ts';

/**
 * A manager on a cluster and a MinIO that a Go manager has used (created by hand from docs/go-manager.md). There are no
 * nodes: jobs are accepted and stay queued.
 */
const [port = 0] = await freePorts(1);
const url = `http://127.0.0.1:${port}`;
const hooks = Object.fromEntries(
  ['plants', 'weeds', 'herds'].map((name) => [name, { url: `${url}/job/${name}`, durable: false }] as const),
);
const [plane, minio, people] = await Promise.all([
  ControlPlane.start({ controllers: true }),
  Minio.start({ hooks: { ...bothAt(`${url}/system/events/storage`), ...hooks }, token: TOKEN }),
  startPeople(),
]);
const { admin } = plane;
const { alice, bob, carol } = people;
let manager: TestManager;
let outside: Outside;
const root = storeClient(minio, ROOT);
before(async () => {
  await layOut(admin, minio);
  manager = await startTestManager({
    ...managerSettings(await plane.managerKubeconfig()),
    ...people.settings,
    ...minio.settings,
    OSCAR_LISTEN: `127.0.0.1:${port}`,
    OSCAR_EXTERNAL_STORE: 'minio',
    OSCAR_STAGING_IMAGE: 'localhost/oscar-manager:test',
    OSCAR_EVENTS_TOKEN: TOKEN,
  });
  outside = new Outside(manager.url);
});
after(async () => {
  await manager?.[Symbol.asyncDispose]();
  await people.issuer.stop();
  await Promise.all([plane.stop(), minio.stop()]);
});

interface SeenBucket {
  readonly bucket_name: string;
  readonly visibility: string;
  readonly allowed_users: string[] | null;
  readonly owner: string;
  readonly metadata: { readonly from_service?: string };
}

const bucketsOf = async (as: string) => {
  const { status, text, json } = await outside.call('GET', '/system/buckets', { as });
  assert.equal(status, 200, text);
  return (json() as SeenBucket[]).filter(({ bucket_name }) => bucket_name !== 'weeds');
};
const servicesOf = async (as: string) =>
  ((await outside.call('GET', '/system/services', { as })).json() as { name: string }[])
    .map(({ name }) => name)
    .filter((name) => name !== 'weeds');
const inCluster = async (path: string) => (await admin.ask('GET', path)).status === 200;
const secretOf = async (namespace: string, name: string) => {
  const { data } = (await admin.do('GET', `/api/v1/namespaces/${namespace}/secrets/${name}`)) as {
    data: Record<string, string>;
  };
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]));
};
const jobIn = (namespace: string, name: string) => inCluster(`/apis/batch/v1/namespaces/${namespace}/jobs/${name}`);
const queuesOf = async (Bucket: string) => {
  const { QueueConfigurations = [] } = await root.client.send(
    new GetBucketNotificationConfigurationCommand({ Bucket }),
  );
  return QueueConfigurations.map(({ QueueArn = '' }) => QueueArn.split(':').at(-2) ?? '').toSorted();
};

/** The manager adopts the buckets in the background, while it already serves requests. */
const taken = () =>
  eventually(async () => {
    const { TagSet = [] } = await root.client.send(new GetBucketTaggingCommand({ Bucket: 'plants' }));
    assert.ok(TagSet.some(({ Key }) => Key === 'oscar_service_uid'));
    assert.ok(manager.log.some(({ msg }) => msg === 'the event rules of the object store are correct'));
  });

test('migration: services keep their visibility and definition', async () => {
  assert.ok((await servicesOf(ADMIN)).includes('plants'));
  assert.deepEqual(await servicesOf(alice), ['plants']);
  assert.deepEqual(await servicesOf(bob), ['plants']);
  assert.deepEqual(await servicesOf(carol), []);
  const { json } = await outside.call('GET', '/system/services/plants', { as: alice });
  const seen = json() as Record<string, unknown>;
  assert.equal(seen['token'], TOKEN);
  assert.equal(seen['script'], 'echo plants\n');
  assert.equal(seen['owner'], ALICE.sub);
  assert.deepEqual(seen['allowed_users'], [BOB.sub]);
});

test('migration: users keep their keys', async () => {
  const { access_key, secret_key } = await outside.provider(alice);
  assert.deepEqual([access_key, secret_key], [ALICE.sub, ALICES_KEYS.secretKey.reveal()]);
  await storeClient(minio, ALICES_KEYS).get('alices', 'mine.txt');
});

test('migration: an object with the name of a user gives no keys (S15)', async () => {
  const stringData = { oidc_uid: BOB.sub, accessKey: BOB.sub, secretKey: 'bobs-other-key' };
  await admin.do('POST', `/api/v1/namespaces/${SERVICES_NAMESPACE}/secrets`, {
    metadata: { name: CAROL.sub },
    stringData,
  });
  const { access_key, secret_key } = await outside.provider(carol);
  assert.equal(access_key, CAROL.sub);
  assert.notEqual(secret_key, 'bobs-other-key');
});

test('migration: buckets keep their owner and visibility', async () => {
  await taken();
  const shown = ({ bucket_name, visibility, allowed_users, owner, metadata }: SeenBucket) =>
    [bucket_name, visibility, allowed_users, owner, metadata.from_service ?? ''] as const;
  const plants = ['plants', 'restricted', [BOB.sub], ALICE.sub, 'plants'] as const;
  const alices = ['alices', 'private', null, ALICE.sub, ''] as const;
  const everyones = ['everyones', 'public', null, BOB.sub, ''] as const;
  assert.deepEqual((await bucketsOf(alice)).map(shown), [alices, everyones, plants]);
  assert.deepEqual((await bucketsOf(bob)).map(shown), [everyones, plants]);
  assert.deepEqual((await bucketsOf(carol)).map(shown), [everyones]);
  assert.deepEqual((await bucketsOf(ADMIN)).map(shown), [
    alices,
    everyones,
    ['pastures', 'private', null, 'oscar', ''],
    plants,
    ['untouched', 'private', null, 'oscar', ''],
  ]);
});

test('migration: presigned URLs are signed for the right user', async () => {
  const body = { object_key: 'out/old.txt', operation: 'download' };
  for (const as of [alice, bob]) {
    const { json } = await outside.call('POST', '/system/buckets/plants/presign', { as, body });
    assert.equal(await (await fetch((json() as { url: string }).url)).text(), 'out/old.txt');
  }
  assert.equal((await outside.call('POST', '/system/buckets/plants/presign', { as: carol, body })).status, 403);
});

test('migration: jobs of the Go manager are not shown, run or changed', async () => {
  const { json } = await outside.call('GET', '/system/logs/herds', { as: ADMIN });
  assert.deepEqual(Object.keys((json() as { jobs: object }).jobs), []);
  for (const name of [finishedJobOf('plants'), waitingJobOf('plants')]) {
    assert.equal((await outside.call('GET', `/system/logs/plants/${name}`, { as: alice })).status, 404);
    assert.equal((await outside.call('DELETE', `/system/logs/plants/${name}`, { as: alice })).status, 404);
  }
  assert.equal((await outside.call('DELETE', '/system/logs/plants?all=true', { as: bob })).status, 204);
  for (const name of [finishedJobOf('plants'), waitingJobOf('plants')]) assert.ok(await jobIn(ALICES_NAMESPACE, name));
});

test('migration: a file is one job, although three webhooks report it', async () => {
  await taken();
  assert.deepEqual(await queuesOf('plants'), ['OSCAR_DURABLE', 'OSCAR_FAST', 'plants']);
  await storeClient(minio, ALICES_KEYS).put('plants', 'in/new.txt', 'new');
  const caused = async () => (await outside.jobs(alice, 'plants')).filter(({ object }) => object !== undefined);
  await eventually(async () => assert.equal((await caused()).length, 1));
  await eventually(() => {
    const asked = manager.log.filter(({ msg }) => msg === 'request').map(({ path }) => path);
    assert.ok(asked.includes('/job/plants'), 'the old webhook must report the event too');
    assert.ok(
      asked.filter((path) => path === '/system/events/storage').length >= 2,
      'both new webhooks must report it',
    );
  });
  assert.deepEqual(
    (await caused()).map(({ object }) => object),
    [{ bucket: 'plants', key: 'in/new.txt' }],
    'and what was there before is not run again',
  );
});

test('migration: a service keeps its token', async () => {
  const id = await outside.submit(`Bearer ${TOKEN}`, 'plants', 'hello');
  assert.equal((await outside.job(alice, 'plants', id)).state, 'queued');
  const { metadata } = (await admin.do('GET', `/apis/batch/v1/namespaces/${ALICES_NAMESPACE}/jobs/${id}`)) as {
    metadata: { labels: Record<string, string> };
  };
  assert.equal(metadata.labels['oscar_service'], 'plants');
  assert.equal((await outside.call('GET', `/system/logs/plants`, { as: alice })).text.includes(id), true);
});

test('migration: an update keeps all secrets', async () => {
  const { json } = await outside.call('GET', '/system/services/plants', { as: alice });
  const read = json() as Record<string, unknown>;
  const { status, text } = await outside.call('PUT', '/system/services', { as: alice, body: { ...read, cpu: '2' } });
  assert.equal(status, 204, text);
  const { data } = (await admin.do('GET', `/api/v1/namespaces/${ALICES_NAMESPACE}/configmaps/plants`)) as {
    data: Record<string, string>;
  };
  const written = data['function_config.yaml'] ?? '';
  assert.match(written, /^cpu: "2"$/m);
  assert.match(written, new RegExp(`^token: "${TOKEN}"$`, 'm'));
  assert.doesNotMatch(written, /hush/, 'secrets must not stay in the ConfigMap');
  assert.deepEqual(await secretOf(ALICES_NAMESPACE, 'plants'), { API_KEY: 'of plants' });
  const { items } = (await admin.do('GET', '/api/v1/namespaces/oscar/secrets')) as { items: { data?: object }[] };
  const kept = items.map(({ data: values = {} }) => Buffer.from(Object.values(values).join(), 'base64').toString());
  assert.ok(kept.some((each) => ['hush-1', 'hush-2'].every((value) => each.includes(value))));
});

test('migration: a Go manager that comes back finds new keys', async () => {
  const { json } = await outside.call('POST', '/system/config/keys', { as: bob });
  const { secret_key } = (json() as { minio_provider: { secret_key: string } }).minio_provider;
  assert.notEqual(secret_key, 'bobs-old-key');
  assert.deepEqual(await secretOf(SERVICES_NAMESPACE, BOB.sub), {
    oidc_uid: BOB.sub,
    accessKey: BOB.sub,
    secretKey: secret_key,
  });
  await assert.rejects(storeClient(minio, keysOf(BOB.sub, 'bobs-old-key')).put('everyones', 'k'));
  await storeClient(minio, keysOf(BOB.sub, secret_key)).put('everyones', 'k');
});

test('migration: a delete removes only what belongs to the service', async () => {
  await taken();
  assert.equal((await outside.call('DELETE', '/system/services/weeds', { as: alice })).status, 204);
  assert.equal((await outside.call('GET', '/system/services/weeds', { as: alice })).status, 404);
  const inAlices = (path: string) => inCluster(`/api/v1/namespaces/${ALICES_NAMESPACE}/${path}`);
  for (const kind of ['configmaps', 'secrets', 'podtemplates']) {
    assert.equal(await inAlices(`${kind}/weeds`), false, kind);
    assert.ok(await inAlices(`${kind}/plants`), kind);
  }
  await eventually(async () => {
    for (const name of [finishedJobOf('weeds'), waitingJobOf('weeds')]) {
      assert.equal(await jobIn(ALICES_NAMESPACE, name), false, name);
    }
  });
  for (const name of [finishedJobOf('plants'), waitingJobOf('plants'), NOBODYS_JOB]) {
    assert.ok(await jobIn(ALICES_NAMESPACE, name), name);
  }
  for (const name of ['minio', ALICE.sub, BOB.sub]) {
    assert.ok(await inCluster(`/api/v1/namespaces/${SERVICES_NAMESPACE}/secrets/${name}`), name);
  }
  const { Buckets = [] } = await root.client.send(new ListBucketsCommand({}));
  const names = Buckets.map(({ Name }) => Name);
  assert.deepEqual(names, ['alices', 'everyones', 'oscar-staging', 'pastures', 'plants', 'untouched']);
  assert.equal(await outside.get(alice, 'alices/mine.txt'), 'of Alice');
  assert.equal(await outside.get(alice, 'plants/out/old.txt'), 'out/old.txt');
});

test("migration: a delete removes only the service's rules of a shared bucket", async () => {
  await taken();
  assert.deepEqual(await queuesOf('pastures'), ['OSCAR_DURABLE', 'OSCAR_FAST', 'herds', 'plants']);
  assert.equal((await outside.call('DELETE', '/system/services/herds', { as: ADMIN })).status, 204);
  assert.deepEqual(await queuesOf('pastures'), ['plants']);
});
