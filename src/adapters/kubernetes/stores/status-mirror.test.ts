import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { eventually } from '../../../ports/conformance/eventually.ts';
import { EPOCH, sampleJob, sampleProgress } from '../../../ports/conformance/sample-job.ts';
import { sampleService } from '../../../ports/conformance/sample-service.ts';
import { StoreError } from '../../../ports/index.ts';
import { ApiError, ConnectionError } from '../client/api-error.ts';
import { JOB, type KubeJob, type Stored } from '../client/kinds.ts';
import { FakeApi } from '../runner/fake-api.fixture.ts';
import { JobCache } from './job-cache.ts';
import { toJob } from './job-object.ts';
import { StatusMirror } from './status-mirror.ts';

/** A finished job whose Job does not show it yet. Requests to the server fail as long as there are entries in `trouble`. */
async function scene(t: TestContext) {
  const server = new FakeApi();
  const reported: unknown[] = [];
  const trouble = { reading: [] as Error[], writing: [] as ApiError[] };
  server.refusal = (write) => (write === 'put jobs' ? trouble.writing.shift() : undefined);
  const event = { bytes: 1, location: { inline: new Uint8Array(1) } };
  const ended = { ...sampleProgress('succeeded'), finishedAt: EPOCH + 1_000 };
  const job = toJob(sampleJob('a', { acceptedAt: EPOCH }), ended, event, sampleService('cow'), { managedBy: true });
  const stored = await server.post<KubeJob>(JOB, job.metadata.namespace ?? '', job);
  const cache = new JobCache({
    changed: () => undefined,
    removed: () => undefined,
    report: (each) => reported.push(each),
  });
  cache.onListed([cache.slim(stored)], '1');
  const mirror = new StatusMirror(server.api, {
    cache,
    read: async () => {
      const problem = trouble.reading.shift();
      if (problem) throw problem;
      return server.get<KubeJob>(JOB, stored.metadata);
    },
    onlyEnds: false,
    report: (problem) => reported.push(problem),
    retryMs: 1,
  });
  t.after(() => mirror.stop());
  const conditions = () =>
    (server.all('jobs') as Stored<KubeJob>[]).flatMap(
      ({ status }) => status?.conditions?.map(({ type }) => type) ?? [],
    );
  return { server, mirror, trouble, reported, conditions };
}

const PASSING: Record<string, { reading?: Error; writing?: ApiError }> = {
  'the answer to a read is lost': { reading: new StoreError('unavailable', 'no answer') },
  'the connection breaks': { reading: new ConnectionError(true, 'reset') },
  'the server is busy': { writing: new ApiError(429, {}) },
  'the server is starting': { writing: new ApiError(503, {}) },
  'a permission is not known yet': { writing: new ApiError(403, {}) },
  'a token is too old': { writing: new ApiError(401, {}) },
  'another writer was first': { writing: new ApiError(409, {}) },
};

for (const [name, { reading, writing }] of Object.entries(PASSING)) {
  test(`status mirror: the end of a job is shown even if ${name} at first`, async (t) => {
    const { mirror, trouble, conditions } = await scene(t);
    if (reading) trouble.reading.push(reading, reading);
    if (writing) trouble.writing.push(writing, writing);
    mirror.start();
    await eventually(() => assert.deepEqual(conditions(), ['SuccessCriteriaMet', 'Complete']));
  });
}

test('status mirror: a status that Kubernetes rejects is reported once', async (t) => {
  const { server, mirror, trouble, reported } = await scene(t);
  trouble.writing.push(new ApiError(422, { message: 'status.conditions: Invalid value' }));
  mirror.start();
  await eventually(() => assert.equal(reported.length, 1));
  assert.match(String(reported[0]), /write the status of the Job of job cow-a: status\.conditions/);
  await mirror.stop();
  assert.equal(server.writes.filter((write) => write === 'put jobs').length, 1);
});
