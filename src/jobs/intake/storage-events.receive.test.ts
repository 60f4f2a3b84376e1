import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { changedIn } from '../../lib/changed-in.fixture.ts';
import { StoreError } from '../../ports/index.ts';
import { openScene, type Scene } from './intake.fixture.ts';
import { receiveEvents } from './storage-events.ts';

const record = (key: string, more: Record<string, unknown> = {}) => ({
  eventVersion: '2.0',
  eventSource: 'minio:s3',
  eventName: 's3:ObjectCreated:Put',
  eventTime: '2026-11-15T20:13:16.730Z',
  requestParameters: { principalId: 'bob' },
  s3: { bucket: { name: 'demo' }, object: { key, size: 5, eTag: 'e1', sequencer: '18E85113BD1A412F' } },
  ...more,
});
const aws = (key: string) => ({
  eventSource: 'aws:s3',
  awsRegion: 'eu-west-1',
  eventName: 'ObjectCreated:Put',
  userIdentity: { principalId: 'AWS:X' },
  s3: { bucket: { name: 'demo' }, object: { key, size: 5, eTag: 'e1', sequencer: '00' } },
});

const bytes = (value: unknown) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
const receive = (scene: Scene, body: unknown, jobs = scene.jobs) =>
  receiveEvents(bytes(body), { jobs, report: (problem) => scene.problems.push(problem) });

describe('webhook of a store', () => {
  test('a MinIO event becomes one job of each subscribed service, byte by byte', async () => {
    await using scene = openScene();
    const one = await scene.addService('one', 'demo/in');
    const two = await scene.addService('two', 'demo/in');
    const other = await scene.addService('other', 'demo/other');
    const body = `{ "EventName":"s3:ObjectCreated:Put",  "Key":"demo/in/a b", "Records":[${JSON.stringify(record('in%2Fa+b'))}] }\n`;
    await receive(scene, body);
    await receive(scene, body);
    assert.deepEqual(await Promise.all([one, two, other].map((each) => scene.ran(each))), [['in/a b'], ['in/a b'], []]);
    const { items } = await scene.jobs.store.list({ service: 'one', limit: 1 });
    const [job] = items;
    assert.ok(job);
    assert.equal(Buffer.from((await scene.jobs.store.event(job)) ?? []).toString(), body);
    assert.deepEqual([job.principal, job.invoker, job.trigger], ['alice', 'bob', 'storage']);
  });

  test('an event of a service that is not in the cache yet is not dropped', async () => {
    await using scene = openScene();
    const service = await scene.addService('demo', 'demo/in');
    const { services } = scene.jobs;
    const behind = changedIn(services, { list: async (query) => (query.fresh ? services.list(query) : { items: [] }) });
    await receive(scene, { Records: [record('in/a')] }, { ...scene.jobs, services: behind });
    assert.deepEqual(await scene.ran(service), ['in/a']);
  });

  test('each of several records becomes a job with its own event', async () => {
    await using scene = openScene();
    const service = await scene.addService('demo', 'demo/in');
    await receive(scene, { Records: [aws('in/a'), aws('in/b+c'), { odd: true }, aws('elsewhere/d')] });
    assert.deepEqual(await scene.ran(service), ['in/a', 'in/b c']);
    for (const job of (await scene.jobs.store.list({ service: 'demo', limit: 5 })).items) {
      const event = JSON.parse(Buffer.from((await scene.jobs.store.event(job)) ?? []).toString());
      const { key } = job.object ?? {};
      const written = key === 'in/a' ? 'in/a' : 'in/b+c';
      assert.deepEqual(event, { EventName: 'ObjectCreated:Put', Key: `demo/${key}`, Records: [aws(written)] });
    }
  });

  test('messages other than object creations are accepted and ignored', async () => {
    await using scene = openScene();
    const service = await scene.addService('demo', 'demo/in');
    const bodies = [
      '',
      'not json',
      'null',
      '[]',
      { Service: 'Amazon S3', Event: 's3:TestEvent', Bucket: 'demo' },
      { Records: [record('in/a', { eventName: 's3:ObjectRemoved:Delete' })] },
      { Records: [record('in/', { s3: { bucket: { name: 'demo' }, object: { key: 'in/', size: 0 } } })] },
      { Records: [record('in/a', { s3: { bucket: { name: 'of nobody' }, object: { key: 'in/a', size: 1 } } })] },
    ];
    for (const body of bodies) await receive(scene, body);
    assert.deepEqual([await scene.ran(service), scene.problems], [[], []]);
  });

  test('any JSON is accepted', async () => {
    await using scene = openScene();
    const odd = fc.oneof(
      fc.json(),
      fc.array(fc.jsonValue()).map((Records) => JSON.stringify({ Records })),
    );
    await fc.assert(
      fc.asyncProperty(odd, (body) => receive(scene, body)),
      { numRuns: 50 },
    );
  });

  test('it fails while the job store is unavailable, and the repeated message creates no job twice', async () => {
    await using scene = openScene();
    const service = await scene.addService('demo', 'demo/in');
    const failing = changedIn(scene.jobs.store, {
      async accept(job, ...rest) {
        if (job.object?.key === 'in/b') throw new StoreError('unavailable', 'no answer');
        return scene.jobs.store.accept(job, ...rest);
      },
    });
    const body = { Records: [record('in/a'), record('in/b'), record('in/c')] };
    await assert.rejects(receive(scene, body, { ...scene.jobs, store: failing }), { code: 'unavailable' });
    assert.deepEqual(await scene.ran(service), ['in/a', 'in/c']);
    await receive(scene, body);
    assert.deepEqual(await scene.ran(service), ['in/a', 'in/b', 'in/c']);
    assert.equal(scene.enqueued.length, 3);
  });

  test('an event that can never be stored is reported, and blocks no other', async () => {
    await using scene = openScene();
    const service = await scene.addService('demo', 'demo/in');
    const failing = changedIn(scene.jobs.store, {
      async accept(job, ...rest) {
        if (job.object?.key === 'in/a') throw new StoreError('too-large', 'more than fits');
        return scene.jobs.store.accept(job, ...rest);
      },
    });
    await receive(scene, { Records: [record('in/a'), record('in/b')] }, { ...scene.jobs, store: failing });
    assert.deepEqual(await scene.ran(service), ['in/b']);
    assert.match(String(scene.problems), /more than fits/);
  });
});
