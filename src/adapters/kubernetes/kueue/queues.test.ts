import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { sampleService } from '../../../ports/conformance/sample-service.ts';
import { FakeApiServer } from '../knative/fake-api-server.fixture.ts';
import { buildClusterQueue, type ClusterQueue, type LocalQueue } from './objects.ts';
import { KueueQueues } from './queues.ts';

const SETTINGS = { flavor: 'f', millicores: 2000, memoryBytes: 2 ** 31, gpus: 0, ephemeralBytes: 2 ** 30 };

const serviceOf = (name: string, owner: string) => sampleService(name, { owner, namespace: `oscar-svc-${owner}` });
const definitionOf = (name: string, owner: string, uid = `map-of-${name}`) => ({
  metadata: { name, namespace: `oscar-svc-${owner}`, uid, resourceVersion: '1' },
});

async function opened(t: TestContext) {
  const server = await FakeApiServer.start();
  t.after(() => server.stop());
  const queues = new KueueQueues(server.api(), SETTINGS);
  const keep = (name: string, owner: string) => queues.ensure(serviceOf(name, owner), definitionOf(name, owner));
  const clusterQueues = () => server.all('clusterqueues') as unknown as ClusterQueue[];
  const localQueues = () => server.all('localqueues') as unknown as LocalQueue[];
  return { server, queues, keep, clusterQueues, localQueues };
}

test('Kueue queues: a user has one ClusterQueue, and each service a LocalQueue', async (t) => {
  const { server, keep, clusterQueues, localQueues } = await opened(t);
  await keep('cows', 'alice');
  await keep('dogs', 'alice');
  await keep('dogs', 'alice');
  assert.deepEqual(
    server.all('resourceflavors').map(({ metadata }) => metadata.name),
    ['f'],
  );
  const [{ metadata, spec } = buildClusterQueue('', '', SETTINGS), ...more] = clusterQueues();
  assert.equal(more.length, 0);
  assert.equal(metadata.name, 'oscar-cq-alice');
  assert.equal(metadata.labels?.['oscar.grycap/owner'], 'alice');
  assert.deepEqual(spec.namespaceSelector, {
    matchLabels: { 'oscar.grycap.upv.es/owner-hash': '522b276a356bdf39013dfabea2cd43e141ecc9e8' },
  });
  assert.deepEqual(spec.resourceGroups?.[0]?.flavors?.[0]?.resources, [
    { name: 'cpu', nominalQuota: '2000m' },
    { name: 'memory', nominalQuota: '2147483648' },
    { name: 'ephemeral-storage', nominalQuota: '1073741824' },
    { name: 'nvidia.com/gpu', nominalQuota: '0' },
  ]);
  const seen = localQueues().map((queue) => [
    queue.metadata.namespace,
    queue.metadata.name,
    queue.spec.clusterQueue,
    queue.metadata.ownerReferences?.[0]?.uid,
  ]);
  assert.deepEqual(seen, [
    ['oscar-svc-alice', 'oscar-lq-cows', 'oscar-cq-alice', 'map-of-cows'],
    ['oscar-svc-alice', 'oscar-lq-dogs', 'oscar-cq-alice', 'map-of-dogs'],
  ]);
});

test('Kueue queues: a quota that the operator has changed stays', async (t) => {
  const { server, keep, clusterQueues } = await opened(t);
  const changed = buildClusterQueue('oscar-cq-alice', 'alice', { ...SETTINGS, millicores: 64_000 });
  server.put('clusterqueues', changed);
  await keep('cows', 'alice');
  assert.deepEqual(
    clusterQueues().map(({ spec }) => spec),
    [changed.spec],
  );
});

test('Kueue queues: users with similar names do not share a quota', async (t) => {
  const { keep, clusterQueues, localQueues } = await opened(t);
  await keep('cows', 'a.b');
  await keep('dogs', 'a-b');
  await keep('cats', 'a-b');
  const [first, second] = clusterQueues().map(({ metadata }) => metadata.name);
  assert.equal(first, 'oscar-cq-a-b');
  assert.match(second ?? '', /^oscar-cq-a-b-[0-9a-f]{10}$/);
  assert.deepEqual(
    localQueues().map(({ spec }) => spec.clusterQueue),
    [first, second, second],
  );
});

test('Kueue queues: a ClusterQueue of a Go manager is recognised by its namespace selector', async (t) => {
  const { server, keep, clusterQueues } = await opened(t);
  const { metadata, ...rest } = buildClusterQueue('oscar-cq-alice', 'alice', SETTINGS);
  server.put('clusterqueues', { ...rest, metadata: { name: metadata.name } });
  await keep('cows', 'alice');
  assert.equal(clusterQueues().length, 1);
});

test('Kueue queues: the LocalQueue of an earlier service of that name is replaced, and only its own service removes it', async (t) => {
  const { queues, keep, localQueues } = await opened(t);
  await keep('cows', 'alice');
  const next = definitionOf('cows', 'alice', 'another');
  await queues.ensure(serviceOf('cows', 'alice'), next);
  assert.deepEqual(
    localQueues().map(({ metadata }) => metadata.ownerReferences?.[0]?.uid),
    ['another'],
  );
  await queues.remove(definitionOf('cows', 'alice'));
  assert.equal(localQueues().length, 1);
  await queues.remove(next);
  assert.equal(localQueues().length, 0);
});

test('Kueue queues: without Kueue the error says what is missing', async (t) => {
  const { server, keep } = await opened(t);
  const message = 'the server could not find the requested resource';
  server.fault = (_, path) => (path.includes('kueue.x-k8s.io') ? { status: 404, message } : undefined);
  await assert.rejects(keep('cows', 'alice'), { code: 'unavailable', message: /^KUEUE_ENABLE is true, but/ });
});
