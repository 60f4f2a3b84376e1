import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Attempt } from '../../model/job/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { openTarget, type TestTarget } from './target.fixture.ts';

const PHOTO = { bucket: 'inputs', key: 'in/photo.jpg' };
const EVENT = Buffer.from(
  JSON.stringify({
    Records: [
      {
        eventSource: 'minio:s3',
        eventName: 's3:ObjectCreated:Put',
        eventTime: '2026-01-01T00:00:00Z',
        s3: { bucket: { name: 'inputs' }, object: { key: 'in/photo.jpg', eTag: 'e' } },
      },
    ],
  }),
);

async function attemptOf(target: TestTarget, event: Uint8Array): Promise<Attempt> {
  const { attempt } = await target.offer({ event, trigger: 'storage' });
  return eventually(() => {
    const started = target.runner.attempts.get(attempt);
    assert.ok(started);
    return started.attempt;
  });
}

test("prepare: the script's environment is that of the origin, with the name of the worker", async (t) => {
  const target = await openTarget(t, {
    definition: {
      environment: { variables: { GREETING: 'hello', JOB_UUID: 'forged' } },
      output: [
        { storage_provider: 'minio.default', path: 'out/results', suffix: ['.txt'] },
        { storage_provider: 's3.archive', path: 'arc/x' },
      ],
      storage_providers: { s3: { archive: { access_key: '', secret_key: '', region: 'eu' } } },
    },
  });
  target.origin.input = PHOTO;
  const attempt = await attemptOf(target, EVENT);
  assert.deepEqual(attempt.environment, {
    GREETING: 'hello',
    JOB_UUID: 'cow-1',
    OSCAR_SERVICE_NAME: 'calf',
    OSCAR_SERVICE_TOKEN: target.service.token,
    OSCAR_SERVICE_BASE_PATH: '',
    RESOURCE_ID: 'node-b',
    EVENT: EVENT.toString(),
    EVENT_TIME: '2026-01-01T00:00:00Z',
    STORAGE_OBJECT_KEY: 'in/photo.jpg',
  });
  assert.deepEqual(attempt.input, { kind: 'object', name: 'photo.jpg', from: { store: 'minio.origin', ...PHOTO } });
  const at = { store: 'minio.origin', bucket: 'outputs' };
  assert.deepEqual(attempt.outputs, [{ ...at, folder: 'allowed/cow/cow-1/1/files', prefix: [], suffix: [] }]);
  assert.deepEqual(attempt.manifest, { ...at, key: 'allowed/cow/cow-1/1/manifest.json' });
  assert.equal(attempt.answer, false);
});

test('prepare: an event with a file that the origin does not permit is the input itself', async (t) => {
  const target = await openTarget(t);
  const attempt = await attemptOf(target, EVENT);
  assert.deepEqual(attempt.input, { kind: 'bytes', name: 'event-file-cow-1', bytes: new Uint8Array(EVENT) });
  assert.equal(attempt.environment['STORAGE_OBJECT_KEY'], undefined);
});

test('prepare: one permit is used from the offer to the input; later a new one is requested', async (t) => {
  const target = await openTarget(t);
  target.origin.input = PHOTO;
  const attempt = await attemptOf(target, EVENT);
  await attempt.stores();
  assert.equal(target.origin.permits.length, 1);
  target.ahead = 31_000;
  const stores = await attempt.stores();
  assert.equal(target.origin.permits.length, 2);
  const { endpoint, region, verify, accessKey, secretKey, sessionToken, expiresAt } = target.origin.store;
  const keys = { accessKey, secretKey, sessionToken, expiresAt };
  const access = { type: 's3', endpoint, region, verify, ...keys, guarded: false };
  assert.deepEqual([...stores], [['minio.origin', access]]);
});

test('prepare: results wait for an unreachable origin, and their capacity is released', async (t) => {
  const target = await openTarget(t);
  const attempt = await attemptOf(target, EVENT);
  target.ahead = 31_000;
  target.origin.silent = true;
  const stores = attempt.stores();
  await eventually(() => assert.equal(target.capacity.taken, 0));
  target.origin.silent = false;
  assert.equal((await stores).size, 1);
});

test('prepare: results of a fenced attempt do not wait', async (t) => {
  const target = await openTarget(t);
  const attempt = await attemptOf(target, EVENT);
  target.ahead = 31_000;
  target.origin.fences = true;
  await assert.rejects(attempt.stores(), { message: /another attempt/ });
});

test('prepare: results of a cancelled job do not wait', async (t) => {
  const target = await openTarget(t);
  const attempt = await attemptOf(target, EVENT);
  target.ahead = 31_000;
  target.origin.silent = true;
  const given = assert.rejects(attempt.stores(), { message: 'the origin does not answer' });
  await target.dispatcher.cancel(target.key(attempt.name), 'cancelled');
  await given;
});
