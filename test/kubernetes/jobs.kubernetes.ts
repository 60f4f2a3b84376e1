import assert from 'node:assert/strict';
import { after, describe, type TestContext, test } from 'node:test';
import type { KubernetesCluster } from '../../src/adapters/kubernetes/index.ts';
import { openBlobStore } from '../../src/adapters/object-stores/blob-store.fixture.ts';
import { Slots } from '../../src/lib/concurrency.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { describeJobStore } from '../../src/ports/conformance/job-store.conformance.ts';
import { accepted } from '../../src/ports/conformance/job-store-under-test.ts';
import { EPOCH, sampleJob, sampleProgress } from '../../src/ports/conformance/sample-job.ts';
import { sampleService } from '../../src/ports/conformance/sample-service.ts';
import { created } from '../../src/ports/conformance/service-store-under-test.ts';
import { SERVICES_NAMESPACE, startTestbed } from './testbed.ts';

/** Stores jobs as Jobs of a real API server, with only the rights of a manager. */
const testbed = await startTestbed();
const { blobs: shelf, close: closeShelf } = await openBlobStore();
after(() => Promise.all([testbed.plane.stop(), closeShelf()]));

const services = await testbed.open();
for (const name of ['cow', 'dog']) await created(services.services, sampleService(name));
await services.close();

async function open(): Promise<KubernetesCluster> {
  const cluster = await testbed.open();
  cluster.useBlobStore(shelf);
  return cluster;
}

async function wiped(): Promise<KubernetesCluster> {
  const jobs = `/apis/batch/v1/namespaces/${SERVICES_NAMESPACE}/jobs`;
  await testbed.plane.admin.do('DELETE', `${jobs}?propagationPolicy=Background`);
  return open();
}

describeJobStore('Kubernetes', async () => {
  const cluster = await wiped();
  return { store: cluster.jobs, close: cluster.close };
});

async function start(t: TestContext): Promise<KubernetesCluster> {
  const cluster = await wiped();
  t.after(cluster.close);
  return cluster;
}

async function beside(t: TestContext): Promise<KubernetesCluster> {
  const cluster = await open();
  t.after(cluster.close);
  return cluster;
}

describe('replicas', () => {
  test('a job that two managers accept is created once', async (t) => {
    const [one, two] = [await start(t), await beside(t)];
    const rounds = Array.from({ length: 20 }, async (_, n) => {
      const answers = await Promise.all(
        [one, two].map(({ jobs }, who) => jobs.accept(sampleJob(`a${n}`), sampleProgress(), new Uint8Array([who]))),
      );
      assert.deepEqual(answers.map(({ outcome }) => outcome).toSorted(), ['created', 'exists']);
      assert.deepEqual(answers[0]?.record, answers[1]?.record);
      const made = answers.findIndex(({ outcome }) => outcome === 'created');
      for (const { jobs } of [one, two]) {
        assert.deepEqual(await jobs.event(sampleJob(`a${n}`)), new Uint8Array([made]));
      }
    });
    await Promise.all(rounds);
  });

  test('a job is visible at the other manager at once, and an update with an old version is rejected', async (t) => {
    const [one, two] = [await start(t), await beside(t)];
    const made = await accepted(one.jobs, sampleJob('a'));
    assert.deepEqual(await two.jobs.get(made), made);
    const outcomes = await Promise.allSettled(
      Array.from({ length: 10 }, (_, n) => (n % 2 ? one : two).jobs.update(made, made.version, { message: `by ${n}` })),
    );
    assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 1);
    const current = await eventually(async () => {
      const [a, b] = [await one.jobs.get(made), await two.jobs.get(made)];
      assert.ok(a);
      assert.deepEqual(a, b);
      return a;
    });
    assert.match(current.message, /^by \d$/);
  });

  test('a cursor works at every manager', async (t) => {
    const [one, two] = [await start(t), await beside(t)];
    const { cursor } = await one.jobs.changes({ limit: 1 });
    const made = await accepted(one.jobs, sampleJob('a'), sampleProgress('failed'));
    await accepted(two.jobs, sampleJob('b'));
    await two.jobs.remove(made);
    await eventually(async () => {
      for (const { jobs } of [one, two]) {
        const { items } = await jobs.changes({ since: cursor, limit: 10 });
        assert.deepEqual(
          items.map(({ key, record }) => `${key.id} ${record?.state ?? 'gone'}`),
          ['cow-b accepted', 'cow-a gone'],
        );
      }
    });
    const pages = await Promise.all([one, two].map(({ jobs }) => jobs.list({ service: 'cow', limit: 10 })));
    assert.deepEqual(pages[0], pages[1]);
  });

  test('deleting a service deletes jobs that another manager has just accepted', async (t) => {
    const [one, two] = [await start(t), await beside(t)];
    const made = await accepted(one.jobs, sampleJob('a'));
    assert.deepEqual(await two.jobs.removeService(made.serviceUid), [made]);
    assert.equal(await two.jobs.get(made), undefined);
    await eventually(async () => assert.deepEqual((await one.jobs.list({ service: 'cow', limit: 1 })).items, []));
  });
});

test('a manager that starts lists 5,000 jobs in order', async (t) => {
  const first = await start(t);
  const slots = new Slots(32);
  const ids = Array.from({ length: 5_000 }, (_, n) => `cow-${String(n).padStart(4, '0')}`);
  await Promise.all(
    ids.map((id, n) =>
      slots.use(() => accepted(first.jobs, sampleJob('', { id, acceptedAt: EPOCH + n }), sampleProgress('queued'))),
    ),
  );
  const { jobs } = await beside(t);
  assert.deepEqual(await jobs.counts(), new Map([['queued', 5_000]]));
  const found: string[] = [];
  for await (const { id } of jobs.unfinished()) found.push(id);
  assert.deepEqual(found, ids);
  let page = await jobs.list({ service: 'cow', limit: 999 });
  const listed = page.items.map(({ id }) => id);
  while (page.next !== undefined) {
    page = await jobs.list({ service: 'cow', limit: 999, cursor: page.next });
    listed.push(...page.items.map(({ id }) => id));
  }
  assert.deepEqual(listed, ids.toReversed());
});
