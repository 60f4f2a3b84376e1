import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { after, describe, type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import type { KubernetesCluster, KubernetesClusterOptions } from '../../src/adapters/kubernetes/index.ts';
import { toJob } from '../../src/adapters/kubernetes/stores/job-object.ts';
import { openBlobStore } from '../../src/adapters/object-stores/blob-store.fixture.ts';
import type { JobState } from '../../src/model/job/index.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { accepted, EVENT } from '../../src/ports/conformance/job-store-under-test.ts';
import { EPOCH, sampleJob, sampleProgress, storageJob } from '../../src/ports/conformance/sample-job.ts';
import { sampleService } from '../../src/ports/conformance/sample-service.ts';
import { created } from '../../src/ports/conformance/service-store-under-test.ts';
import { programs } from './programs.ts';
import { SERVICES_NAMESPACE, startTestbed } from './testbed.ts';

/** Jobs as the Kubernetes controllers and users of kubectl see them. */
const testbed = await startTestbed({ controllers: true });
const { blobs: shelf, close: closeShelf } = await openBlobStore();
after(() => Promise.all([testbed.plane.stop(), closeShelf()]));
const { admin } = testbed.plane;

const USERS_JOBS = '/apis/batch/v1/namespaces/oscar-svc-alice/jobs';
const QUOTA = { flavor: 'f', millicores: 1000, memoryBytes: 2 ** 30, gpus: 0, ephemeralBytes: 2 ** 30 };
const JOBS = `/apis/batch/v1/namespaces/${SERVICES_NAMESPACE}/jobs`;
const PODS = `/api/v1/namespaces/${SERVICES_NAMESPACE}/pods`;

/** The namespace of Alice. */
const USERS_NAMESPACE = 'oscar-svc-alice';

const services = await testbed.open();
const definition = {
  labels: { herd: 'north' },
  annotations: { note: 'moo' },
  image_pull_secrets: ['pull'],
  enable_sgx: true,
};
await created(services.services, sampleService('cow', { definition }));
await created(services.services, sampleService('dog', { owner: 'cluster_admin' }));
await created(services.services, sampleService('cat', { namespace: USERS_NAMESPACE, definition }));
await services.close();

async function start(t: TestContext, options: Partial<KubernetesClusterOptions> = {}): Promise<KubernetesCluster> {
  await admin.do('DELETE', `${JOBS}?propagationPolicy=Background`);
  return beside(t, options);
}

async function beside(t: TestContext, options: Partial<KubernetesClusterOptions> = {}): Promise<KubernetesCluster> {
  const cluster = await testbed.open(options);
  t.after(cluster.close);
  cluster.useBlobStore(shelf);
  return cluster;
}

interface JobOnServer {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly labels: Record<string, string>;
    readonly annotations: Record<string, string>;
  };
  readonly spec: Record<string, unknown> & { readonly template: { spec: Record<string, unknown> } };
  readonly status: Record<string, unknown> & { readonly conditions?: { type: string; status: string }[] };
}

const onServer = async (name: string) => (await admin.do('GET', `${JOBS}/${name}`)) as unknown as JobOnServer;

const conditionsOf = ({ status }: JobOnServer) =>
  (status.conditions ?? []).filter((each) => each.status === 'True').map(({ type }) => type);

const someId = () => randomUUID();

describe('job objects', () => {
  test('a job is a Job with its name, image and resources', async (t) => {
    const { jobs } = await start(t, { jobTtlSeconds: 60 });
    const made = await accepted(jobs, sampleJob(someId(), { invoker: 'bob@example.org' }));
    const { metadata, spec } = await onServer(made.id);
    const { labels, annotations } = metadata;
    assert.equal(labels['oscar_service'], 'cow');
    assert.equal(labels['oscar.grycap/job-owner'], 'bob');
    assert.equal(labels['herd'], 'north');
    assert.equal(labels['kueue.x-k8s.io/queue-name'], undefined);
    assert.equal(annotations['note'], 'moo');
    assert.equal(spec['managedBy'], 'oscar.grycap.net/manager');
    assert.equal(spec['suspend'], false);
    assert.equal(spec['backoffLimit'], 0);
    assert.equal(spec['ttlSecondsAfterFinished'], 60);
    const pod = spec.template.spec as { containers: { image: string; resources: unknown }[] } & Record<string, unknown>;
    assert.equal(pod['automountServiceAccountToken'], false);
    assert.deepEqual(pod['imagePullSecrets'], [{ name: 'pull' }]);
    const [container] = pod.containers;
    assert.ok(container);
    assert.equal(container.image, 'ghcr.io/grycap/cowsay');
    const limits = { cpu: '200m', memory: '268435456', 'sgx.intel.com/enclave': '1' };
    assert.deepEqual((container.resources as { limits: unknown }).limits, limits);
    assert.deepEqual(await jobs.object(made), {
      namespace: SERVICES_NAMESPACE,
      name: made.id,
      uid: metadata.uid,
      suspended: false,
    });
  });

  test('Kubernetes does not run it (managedBy)', async (t) => {
    const { jobs } = await start(t);
    const made = await accepted(jobs, sampleJob(someId()));
    const { managedBy: _, ...spec } = (await onServer(made.id)).spec;
    const { selector: __, ...plain } = spec as Record<string, unknown>;
    const template = { spec: spec.template.spec };
    await admin.do('POST', JOBS, { metadata: { name: 'plain' }, spec: { ...plain, template } });
    const ownersOfPods = async () => {
      const { items } = (await admin.do('GET', PODS)) as { items: { metadata: { labels: Record<string, string> } }[] };
      return items.map(({ metadata }) => metadata.labels['job-name']);
    };
    await eventually(async () =>
      assert.ok((await ownersOfPods()).includes('plain'), 'the Job controller has created no pod'),
    );
    assert.equal((await ownersOfPods()).includes(made.id), false);
  });

  test('a Kubernetes without managedBy sees a suspended Job and creates no pod', async (t) => {
    await start(t);
    const event = { bytes: 0, location: { inline: new Uint8Array() } };
    const options = { managedBy: false };
    const job = toJob(sampleJob(someId()), sampleProgress(), event, sampleService('cow', { definition }), options);
    const { ownerReferences: _, ...metadata } = job.metadata;
    const { name } = metadata;
    await admin.do('POST', JOBS, { ...job, metadata: { ...metadata, namespace: SERVICES_NAMESPACE } });
    await eventually(async () => assert.deepEqual(conditionsOf(await onServer(name)), ['Suspended']));
    const { items } = await admin.do('GET', `${PODS}?labelSelector=job-name%3D${name}`);
    assert.deepEqual(items, []);
  });

  test('a job of a storage event has no TTL, because that would leave no tombstone', async (t) => {
    const { jobs } = await start(t, { jobTtlSeconds: 60 });
    const made = await accepted(jobs, storageJob(someId()));
    assert.equal((await onServer(made.id)).spec['ttlSecondsAfterFinished'], undefined);
  });

  test("with Kueue, a user's job has the queue of its service, an administrator's has none", async (t) => {
    const { jobs } = await start(t, { kueue: QUOTA });
    const ofUser = await accepted(jobs, sampleJob(someId(), { service: 'cat' }));
    const ofAdmin = await accepted(jobs, sampleJob(someId(), { service: 'dog' }));
    const { metadata, spec } = (await admin.do('GET', `${USERS_JOBS}/${ofUser.id}`)) as unknown as JobOnServer;
    assert.equal(metadata.labels['kueue.x-k8s.io/queue-name'], 'oscar-lq-cat');
    assert.equal(spec['suspend'], true);
    assert.equal(ofUser.held, 'waits for its queue oscar-lq-cat');
    assert.equal((await onServer(ofAdmin.id)).spec['suspend'], false);
    assert.equal(ofAdmin.held, undefined);
    assert.equal((await (await beside(t)).jobs.get(ofUser))?.held, undefined, 'without Kueue no job may be held');
    const { cursor } = await jobs.changes({ limit: 1 });
    const patch = [{ op: 'replace', path: '/spec/suspend', value: false }];
    await admin.do('PATCH', `${USERS_JOBS}/${ofUser.id}`, patch, 'application/json-patch+json');
    const changed = () => jobs.changes({ since: cursor, limit: 10 });
    await eventually(async () => {
      const [{ key, record } = {}] = (await changed()).items;
      assert.deepEqual([key?.id, record?.held, record?.version], [ofUser.id, undefined, ofUser.version]);
    });
    await admin.do('DELETE', `${USERS_JOBS}/${ofUser.id}?propagationPolicy=Background`);
  });

  test('an event above 64 KiB is a blob, which is deleted with the job', async (t) => {
    const { jobs } = await start(t);
    const event = Uint8Array.from({ length: 100 * 1024 }, (_, n) => n % 253);
    const jobsOf = [sampleJob(someId()), storageJob(someId()), sampleJob(someId())];
    const keys: string[] = [];
    for (const job of jobsOf) {
      await jobs.accept(job, sampleProgress('failed'), event);
      assert.deepEqual(await jobs.event(job), event);
      const { annotations } = (await onServer(job.id)).metadata;
      assert.ok(JSON.stringify(annotations).length < 4_000);
      keys.push(JSON.parse(annotations['oscar.grycap/event-shelved'] ?? '').key);
    }
    const [removed, hidden, deleted] = jobsOf;
    assert.ok(removed && hidden && deleted);
    await jobs.remove(removed);
    await jobs.remove(hidden);
    await admin.do('DELETE', `${JOBS}/${deleted.id}?propagationPolicy=Background`);
    await eventually(async () => {
      for (const key of keys) assert.equal(await shelf.get(key), undefined);
    });
  });

  test('a repeated event keeps the blob of the job', async (t) => {
    const { jobs } = await start(t);
    const [first, again] = [1, 2].map((n) => new Uint8Array(70_000).fill(n));
    assert.ok(first && again);
    const job = storageJob(someId());
    await jobs.accept(job, sampleProgress(), first);
    assert.equal((await jobs.accept(job, sampleProgress(), again)).outcome, 'exists');
    assert.deepEqual(await jobs.event(job), first);
  });

  test('a job that is deleted with kubectl is gone with its pods, and changes report it', async (t) => {
    const { jobs } = await start(t);
    const made = await accepted(jobs, sampleJob(someId()), sampleProgress('running'));
    const { uid = '' } = (await jobs.object(made)) ?? {};
    const owner = { apiVersion: 'batch/v1', kind: 'Job', name: made.id, uid, controller: true };
    const spec = { containers: [{ name: 'c', image: 'none' }] };
    await admin.do('POST', PODS, { metadata: { name: 'attempt', ownerReferences: [owner] }, spec });
    const { cursor } = await jobs.changes({ limit: 1 });
    await kubectl('delete', 'job', made.id, '-n', SERVICES_NAMESPACE, '--wait=false');
    await eventually(async () => {
      const { items } = await jobs.changes({ since: cursor, limit: 10 });
      assert.deepEqual(items, [{ key: { service: 'cow', id: made.id } }]);
    });
    assert.equal(await jobs.get(made), undefined);
    await assert.rejects(jobs.update(made, made.version, { state: 'failed' }), { code: 'absent' });
    await eventually(async () => assert.equal((await admin.ask('GET', `${PODS}/attempt`)).status, 404), 30_000);
  });

  test('an invalid record does not affect the others', async (t) => {
    const { jobs } = await start(t);
    const made = await accepted(jobs, sampleJob(someId()));
    const { spec } = await onServer(made.id);
    const { selector: _, ...plain } = spec as Record<string, unknown>;
    const labels = { 'oscar.grycap/record': 'job' };
    const body = { metadata: { name: 'cow-odd', labels }, spec: { ...plain, template: { spec: spec.template.spec } } };
    const problems = testbed.problems.length;
    await admin.do('POST', JOBS, body);
    await eventually(() => assert.ok(testbed.problems.length > problems, 'the problem must be reported'));
    const next = await accepted(jobs, sampleJob(someId()));
    assert.deepEqual(await jobs.get(next), next);
    await assert.rejects(jobs.accept(sampleJob('odd'), sampleProgress(), EVENT), {
      code: 'damaged',
      message: /the Job cow-odd in namespace oscar-svc is not a valid job record/,
    });
  });

  test('a foreign Job with the same name is reported as a conflict', async (t) => {
    const { jobs } = await start(t);
    const made = await accepted(jobs, sampleJob(someId()));
    const { spec } = await onServer(made.id);
    const { selector: _, ...plain } = spec as Record<string, unknown>;
    const template = { spec: spec.template.spec };
    await admin.do('POST', JOBS, { metadata: { name: 'cow-theirs' }, spec: { ...plain, template } });
    const accepting = jobs.accept(sampleJob('theirs'), sampleProgress(), EVENT);
    await assert.rejects(accepting, { code: 'conflict', message: /does not belong to this manager/ });
  });
});

const { kube } = await programs();

async function kubectl(...args: string[]): Promise<string> {
  const env = { ...process.env, KUBECONFIG: await testbed.plane.managerKubeconfig() };
  return (await promisify(execFile)(kube, ['kubectl', ...args], { env })).stdout;
}

describe('job status', () => {
  const cases: Record<JobState, string> = {
    accepted: 'Suspended 0/1',
    queued: 'Suspended 0/1',
    offering: 'Suspended 0/1',
    delegated: 'Running 0/1',
    running: 'Running 0/1',
    committing: 'Running 0/1',
    succeeded: 'Complete 1/1',
    failed: 'Failed 0/1',
    cancelled: 'Failed 0/1',
  };

  async function mirrored(t: TestContext, cluster: KubernetesCluster) {
    const mirror = cluster.statusMirror();
    mirror.start();
    t.after(() => mirror.stop());
    return mirror;
  }

  test('kubectl shows the state of the record', async (t) => {
    const cluster = await start(t);
    for (const state of Object.keys(cases) as JobState[]) {
      await accepted(cluster.jobs, sampleJob(state), sampleProgress(state));
    }
    await mirrored(t, cluster);
    const expected = Object.entries(cases).map(([state, shown]) => `cow-${state} ${shown}`);
    await eventually(async () => {
      const lines = (await kubectl('get', 'jobs', '-n', SERVICES_NAMESPACE, '--no-headers')).trim().split('\n');
      const shown = lines.map((line) => line.split(/ +/).slice(0, 3).join(' '));
      assert.deepEqual(shown, expected.toSorted());
    });
  });

  test('it follows the record without conflicts for other writers', async (t) => {
    const cluster = await start(t);
    await mirrored(t, cluster);
    const { jobs } = cluster;
    let record = await accepted(jobs, sampleJob('a'));
    const shows = (condition: string[]) =>
      eventually(async () => assert.deepEqual(conditionsOf(await onServer('cow-a')), condition));
    await shows(['Suspended']);
    record = await jobs.update(record, record.version, { state: 'running', startedAt: EPOCH + 5_000 });
    await shows([]);
    const { status } = await onServer('cow-a');
    assert.deepEqual([status['active'], status['startTime']], [1, '2023-11-14T22:13:25Z']);
    record = await jobs.update(record, record.version, { state: 'queued', startedAt: undefined } as never);
    await shows(['Suspended']);
    record = await jobs.update(record, record.version, { state: 'running', startedAt: EPOCH + 9_000 });
    await shows([]);
    const { timeline } = record;
    const reason = { state: 'failed', at: EPOCH + 11_000, reason: 'ScriptFailed', message: 'exit code 3' } as const;
    await jobs.update(record, record.version, {
      state: 'failed',
      finishedAt: EPOCH + 10_000,
      timeline: [...timeline, { ...reason, place: 'here' }],
    });
    await shows(['FailureTarget', 'Failed']);
    const ended = await onServer('cow-a');
    assert.deepEqual([ended.status['failed'], ended.status['active']], [1, undefined]);
    const said = ended.status.conditions?.find(({ type }) => type === 'Failed') as Record<string, unknown> | undefined;
    const { reason: why, message, lastTransitionTime } = said ?? {};
    assert.deepEqual([why, message, lastTransitionTime], ['ScriptFailed', 'exit code 3', '2023-11-14T22:13:30Z']);
  });

  test('the next leader corrects it', async (t) => {
    const first = await start(t);
    const mirror = await mirrored(t, first);
    const { jobs } = first;
    const [a, b] = [await accepted(jobs, sampleJob('a')), await accepted(jobs, sampleJob('b'))];
    await eventually(async () => assert.deepEqual(conditionsOf(await onServer('cow-b')), ['Suspended']));
    await mirror.stop();
    await jobs.update(a, a.version, { state: 'succeeded', startedAt: EPOCH, finishedAt: EPOCH + 1_000 });
    await jobs.update(b, b.version, { state: 'running', startedAt: EPOCH });
    const second = await beside(t);
    await mirrored(t, second);
    await eventually(async () => {
      assert.deepEqual(conditionsOf(await onServer('cow-a')), ['SuccessCriteriaMet', 'Complete']);
      assert.deepEqual(conditionsOf(await onServer('cow-b')), []);
    });
    assert.equal((await onServer('cow-b')).status['active'], 1);
  });

  test('Kubernetes deletes ended jobs after the TTL, and changes report it', async (t) => {
    const cluster = await start(t, { jobTtlSeconds: 60 });
    const { jobs } = cluster;
    const young = { startedAt: Date.now(), finishedAt: Date.now() };
    const old = { startedAt: EPOCH, finishedAt: EPOCH + 1 };
    await accepted(jobs, sampleJob('old'), sampleProgress('succeeded', old));
    await accepted(jobs, storageJob('marked'), sampleProgress('succeeded', old));
    await accepted(jobs, sampleJob('young'), sampleProgress('succeeded', young));
    const { cursor } = await jobs.changes({ limit: 1 });
    await mirrored(t, cluster);
    await eventually(async () => {
      const { items } = await jobs.changes({ since: cursor, limit: 10 });
      assert.deepEqual(items, [{ key: { service: 'cow', id: 'cow-old' } }]);
    }, 30_000);
    for (const id of ['marked', 'young']) assert.ok(await jobs.get(sampleJob(id)));
  });
});
