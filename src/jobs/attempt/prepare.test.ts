import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import { accepted, type JobRecord, type NewJob } from '../../model/job/index.ts';
import { loadSecrets, toSecretsOwner } from '../../services/index.ts';
import { ALICE, BOB, openJobs, type TestJobs } from '../jobs.fixture.ts';
import { MAX_EVENT_VARIABLE, prepareAttempt } from './prepare.ts';

const DEFINITION = {
  visibility: 'restricted',
  allowed_users: [BOB],
  isolation_level: 'USER',
  environment: { variables: { GREETING: 'hello', JOB_UUID: 'forged' }, secrets: {} },
  input: [{ storage_provider: 'minio.default', path: 'inbox/uploads' }],
  output: [
    { storage_provider: 'minio.default', path: 'out/results', suffix: ['.txt'] },
    { storage_provider: 'minio.archive', path: 'arc/x', prefix: ['keep'] },
  ],
  storage_providers: {
    minio: { archive: { endpoint: 'https://archive.example', access_key: 'AK', secret_key: 'SK', region: 'eu' } },
  },
};

const eventFor = (bucket: string, key: string) =>
  Buffer.from(
    JSON.stringify({
      Records: [
        {
          eventSource: 'minio:s3',
          eventName: 's3:ObjectCreated:Put',
          eventTime: '2026-01-01T00:00:00Z',
          s3: { bucket: { name: bucket }, object: { key, size: 1, eTag: 'e' } },
        },
      ],
    }),
  );

async function prepared(jobs: TestJobs, event: Uint8Array, more: Partial<NewJob> = {}, definition: object = {}) {
  const { service } = await jobs.service('demo', { ...DEFINITION, ...definition });
  jobs.buckets.add('inbox', ALICE, { madeFor: { uid: service.uid, service: 'demo' } });
  jobs.buckets.add(`inbox-${BOB}`, BOB, { madeFor: { uid: service.uid, service: 'demo' } });
  const record = {
    service: 'demo',
    id: 'demo-1',
    serviceUid: service.uid,
    owner: ALICE,
    principal: ALICE,
    invoker: '',
    trigger: 'storage',
    byToken: false,
    ...more,
    ...accepted(0, 'here'),
  } as unknown as JobRecord;
  await jobs.secrets.put('credentials', service.uid, {
    'providers/minio.archive/access_key': new Secret('AK'),
    'providers/minio.archive/secret_key': new Secret('SK'),
  });
  await jobs.secrets.put('service', `${service.namespace}/demo`, { PASSWORD: new Secret('pw') });
  assert.ok((await loadSecrets(toSecretsOwner(service), jobs)).environment['PASSWORD']);
  return { service, ...(await prepareAttempt('demo-1', record, service, event, jobs)) };
}

test('prepare: the script of a storage event gets the file and exactly the documented variables', async () => {
  await using jobs = await openJobs();
  const event = eventFor('inbox', 'uploads/dir/photo.jpg');
  const { attempt, service } = await prepared(jobs, event);
  assert.deepEqual(attempt.input, {
    kind: 'object',
    name: 'photo.jpg',
    from: { store: 'minio.default', bucket: 'inbox', key: 'uploads/dir/photo.jpg' },
  });
  assert.deepEqual(attempt.environment, {
    GREETING: 'hello',
    PASSWORD: new Secret('pw'),
    JOB_UUID: 'demo-1',
    OSCAR_SERVICE_NAME: 'demo',
    OSCAR_SERVICE_TOKEN: service.token,
    OSCAR_SERVICE_BASE_PATH: '',
    RESOURCE_ID: 'node-1',
    EVENT: event.toString(),
    STORAGE_OBJECT_KEY: 'uploads/dir/photo.jpg',
    EVENT_TIME: '2026-01-01T00:00:00Z',
  });
});

test('prepare: keys are limited to the input object and the output prefixes, are renewed, and are revoked with the attempt', async () => {
  await using jobs = await openJobs();
  const { attempt, release } = await prepared(jobs, eventFor('inbox', 'uploads/a.txt'));
  const stores = await attempt.stores();
  assert.deepEqual([...stores.keys()].toSorted(), ['minio.archive', 'minio.default']);
  const doubt = { store: 'minio.default', bucket: 'out', key: 'results/b.txt' };
  await attempt.stores([doubt]);
  const scopes = [...jobs.buckets.issued.values()];
  assert.deepEqual(
    scopes.map(({ read }) => read),
    [
      [{ bucket: 'inbox', key: 'uploads/a.txt' }],
      [
        { bucket: 'inbox', key: 'uploads/a.txt' },
        { bucket: 'out', key: 'results/b.txt' },
      ],
    ],
  );
  assert.deepEqual(scopes[0]?.write, [{ bucket: 'out', prefix: 'results/' }]);
  assert.equal(scopes[0]?.onBehalfOf, ALICE);
  await release();
  assert.equal(jobs.buckets.issued.size, 0);
});

test('prepare: no key is issued for a bucket that now belongs to another user', async () => {
  await using jobs = await openJobs();
  jobs.buckets.add('out', BOB);
  const { attempt } = await prepared(jobs, eventFor('inbox', 'uploads/a.txt'));
  await attempt.stores();
  const [scope] = jobs.buckets.issued.values();
  assert.deepEqual(scope?.write, []);
});

test('prepare: connections to a store that a user chose are guarded', async () => {
  await using jobs = await openJobs();
  const { attempt } = await prepared(jobs, Buffer.from('{}'));
  const archive = (await attempt.stores()).get('minio.archive');
  assert.ok(archive?.type === 's3');
  assert.equal(archive.guarded, true);
  assert.equal(archive.accessKey.reveal(), 'AK');
  assert.equal(archive.region, 'eu');
});

test("prepare: with isolation the results of a user's file go to the bucket of that file", async () => {
  await using jobs = await openJobs();
  const own = await prepared(jobs, eventFor(`inbox-${BOB}`, 'uploads/a.txt'));
  assert.deepEqual(own.attempt.outputs[0], {
    store: 'minio.default',
    bucket: `inbox-${BOB}`,
    folder: 'results',
    prefix: [],
    suffix: ['.txt'],
  });
  assert.equal(own.attempt.outputs[1]?.bucket, 'arc');
});

test('prepare: an event that names an unreadable file is data, and no key is issued for the file', async () => {
  await using jobs = await openJobs();
  const event = eventFor(`inbox-${BOB}`, 'uploads/a.txt');
  const { attempt } = await prepared(jobs, event, { trigger: 'run', byToken: true });
  assert.deepEqual(attempt.input, { kind: 'bytes', name: 'event-file-demo-1', bytes: event });
  assert.equal(attempt.environment['STORAGE_OBJECT_KEY'], undefined);
  await attempt.stores();
  assert.deepEqual(
    [...jobs.buckets.issued.values()].map(({ read }) => read),
    [[]],
  );
});

test('prepare: with file_stage_in the input is not fetched', async () => {
  await using jobs = await openJobs();
  const { attempt } = await prepared(jobs, eventFor('inbox', 'uploads/a'), {}, { file_stage_in: true });
  assert.deepEqual(attempt.input, { kind: 'none' });
});

const withoutVariable: [string, Buffer][] = [
  ['an event that is too large', Buffer.alloc(MAX_EVENT_VARIABLE + 1, 0x61)],
  ['an event with a NUL', Buffer.from('a\0b')],
  ['an event that is no text', Buffer.from([0xff, 0xfe])],
];
for (const [name, event] of withoutVariable) {
  test(`prepare: ${name} is in the input file, not in the environment`, async () => {
    await using jobs = await openJobs();
    const { attempt } = await prepared(jobs, event, { trigger: 'job' });
    assert.equal('EVENT' in attempt.environment, false);
    assert.ok(attempt.input.kind === 'bytes' && attempt.input.bytes.length === event.length);
  });
}

test('prepare: a key that is no legal file name gets another file name', async () => {
  for (const [key, name] of [
    ['uploads/..', 'input'],
    [`uploads/${'x'.repeat(300)}.jpg`, 'input.jpg'],
    [`uploads/${'é'.repeat(127)}`, 'é'.repeat(127)],
  ] as const) {
    await using jobs = await openJobs();
    const { attempt } = await prepared(jobs, eventFor('inbox', encodeURIComponent(key)));
    assert.ok(attempt.input.kind === 'object');
    assert.equal(attempt.input.name, name);
  }
});

test('prepare: a service can shorten the timeout of the operator, not extend it', async () => {
  for (const [asked, timeout] of [
    ['10', 10_000],
    ['9999', 60_000],
    ['never', 60_000],
  ] as const) {
    await using jobs = await openJobs();
    const annotations = { 'oscar-manager/job-timeout': asked };
    const { attempt } = await prepared(jobs, Buffer.from('{}'), {}, { annotations });
    assert.equal(attempt.timeout, timeout);
  }
});
