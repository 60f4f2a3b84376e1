import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type KubernetesCluster, openKubernetesCluster } from '../../src/adapters/kubernetes/index.ts';
import type { JobKey, JobProgress, JobRecord, NewJob } from '../../src/model/job/index.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { accepted } from '../../src/ports/conformance/job-store-under-test.ts';
import { sampleJob } from '../../src/ports/conformance/sample-job.ts';
import { BUSYBOX } from '../docker/busybox.ts';
import { ADMIN, call } from '../support/manager.ts';
import { type People, startPeople } from '../support/people.ts';
import type { Operator } from './helm.ts';
import { installKueue } from './install-kueue.ts';
import { MANAGER_NAMESPACE, SERVICE_ACCOUNT } from './manager-rights.ts';
import { PodManagers, type Replica } from './pod-managers.ts';
import { SERVICES_NAMESPACE } from './testbed.ts';

/** Pods are slow on a busy machine. */
const PATIENCE = 90_000;
const EVERY_MS = 100;

/** The quota fits exactly one job of the service. */
const QUOTA = { KUEUE_ENABLE: 'true', KUEUE_DEFAULT_CPU: '100m', KUEUE_DEFAULT_MEMORY: '256Mi' };
const LEADER = { OSCAR_LEADER_SECONDS: '6' };

interface Told {
  readonly state: string;
  readonly message: string;
  readonly attempts: readonly unknown[];
  readonly timeline: readonly { readonly reason: string; readonly message: string }[];
}

interface Queue {
  readonly metadata: { readonly name: string };
  readonly status: {
    readonly admittedWorkloads: number;
    readonly flavorsReservation: readonly { readonly resources: readonly { name: string; total: string }[] }[];
  };
}

describe('Kueue', { timeout: 600_000 }, () => {
  let our: PodManagers;
  let people: People;
  let kueue: Operator;
  let manager: Replica;
  let directory: string;
  const tokens = new Map<string, string>();

  const settings = () => ({ ...people.settings, ...QUOTA, ...LEADER });

  before(async () => {
    directory = mkdtempSync(join(tmpdir(), 'oscar-kueue-'));
    [our, people] = [await PodManagers.start(), await startPeople()];
  });
  after(async () => {
    await people?.issuer.stop();
    await our?.stop();
    rmSync(directory, { recursive: true, force: true });
  });

  const definitionOf = (name: string, cpu = '0.1') => {
    // Sleeps for the seconds in the event; fails if that is no number.
    const script = `#!/bin/sh\n${our.reportRun}\nsleep "$(cat "$INPUT_FILE_PATH")"\n`;
    return { name, image: BUSYBOX, cpu, memory: '16Mi', script };
  };

  async function create(name: string, as: string, cpu?: string): Promise<void> {
    const made = await call(manager.url, 'POST', '/system/services', { as, body: definitionOf(name, cpu) });
    assert.equal(made.status, 201, made.text);
    const { json } = await call(manager.url, 'GET', `/system/services/${name}`, { as });
    tokens.set(name, `Bearer ${(json() as { token: string }).token}`);
  }

  async function submit(service: string, seconds: string): Promise<string> {
    const as = tokens.get(service) ?? '';
    const { status, headers, text } = await call(manager.url, 'POST', `/job/${service}`, { as, body: seconds });
    assert.equal(status, 201, text);
    return headers.get('x-oscar-job-id') ?? '';
  }

  async function look(service: string, id: string): Promise<Told> {
    const { json, text, status } = await call(manager.url, 'GET', `/system/jobs/${service}/${id}`, { as: ADMIN });
    assert.equal(status, 200, text);
    return json() as Told;
  }

  const until = (service: string, id: string, state: string, says = /.*/) =>
    eventually(
      async () => {
        const job = await look(service, id);
        assert.equal(job.state, state, JSON.stringify(job));
        assert.match(job.message, says);
        return job;
      },
      PATIENCE,
      EVERY_MS,
    );

  /** Waits until the script runs. */
  const runs = (id: string) => eventually(() => assert.equal(our.countRuns(id), 1), PATIENCE, EVERY_MS);

  const cancel = async (service: string, id: string) => {
    const { status, text } = await call(manager.url, 'DELETE', `/system/jobs/${service}/${id}`, { as: ADMIN });
    assert.equal(status, 202, text);
  };

  const QUEUES = '/apis/kueue.x-k8s.io/v1beta2/clusterqueues';

  async function queueOfAlice(): Promise<Queue> {
    const { items } = (await our.cluster.admin.do('GET', QUEUES)) as unknown as { items: Queue[] };
    assert.equal(items.length, 1, JSON.stringify(items));
    return items[0] as Queue;
  }

  /** Waits until none of the quota is used. */
  const givenBack = () =>
    eventually(
      async () => {
        const { status } = await queueOfAlice();
        const cpu = status.flavorsReservation[0]?.resources.find(({ name }) => name === 'cpu');
        assert.equal(cpu?.total, '0', JSON.stringify(status));
      },
      PATIENCE,
      EVERY_MS,
    );

  async function changeQueue(patch: object): Promise<void> {
    const { metadata } = await queueOfAlice();
    await kueue.kubectl('', 'patch', 'clusterqueue', metadata.name, '--type=merge', '-p', JSON.stringify(patch));
  }

  async function setCpuOfAlice(value: string): Promise<void> {
    const { metadata } = await queueOfAlice();
    const patch = JSON.stringify([{ op: 'replace', path: CPU_QUOTA, value }]);
    await kueue.kubectl('', 'patch', 'clusterqueue', metadata.name, '--type=json', '-p', patch);
  }

  test('without Kueue, services of users are rejected with the reason', async () => {
    manager = await our.replica(settings());
    const body = definitionOf('early');
    const refused = await call(manager.url, 'POST', '/system/services', { as: people.alice, body });
    assert.equal(refused.status, 503, refused.text);
    assert.match(refused.text, /KUEUE_ENABLE is true, but this cluster has no Kueue/);
    const info = (await call(manager.url, 'GET', '/system/info', { as: people.alice })).json();
    assert.match((info as { queues?: { problem: string } }).queues?.problem ?? '', /has no Kueue/);
    assert.match(manager.output(), /has no Kueue/);
    await create('chores', ADMIN);
    manager.child.kill('SIGTERM');
    await manager.ended;
  });

  test('a job is admitted and runs, and its pod is not counted twice', async () => {
    kueue = await installKueue(our.cluster, directory);
    manager = await our.replica(settings());
    await create('cows', people.alice);
    const id = await submit('cows', '2');
    await runs(id);
    const pods = (await our.cluster.admin.do('GET', '/api/v1/pods?labelSelector=oscar_service%3Dcows')) as never;
    const [pod] = (pods as { items: { metadata: { labels: object }; spec: { schedulingGates?: object } }[] }).items;
    assert.ok(pod);
    assert.deepEqual(
      Object.keys(pod.metadata.labels).filter((key) => key.includes('kueue')),
      [],
    );
    assert.equal(pod.spec.schedulingGates, undefined);
    assert.equal((await queueOfAlice()).status.admittedWorkloads, 1);
    await until('cows', id, 'succeeded');
    await givenBack();
  });

  test("with a quota of one, the second job waits with a reason, the administrator's job does not, and a cancel admits it", async () => {
    const first = await submit('cows', '600');
    await runs(first);
    const second = await submit('cows', '0');
    await until('cows', second, 'queued', /^waits for its queue oscar-lq-cows: .*insufficient unused quota for cpu/);
    const chore = await submit('chores', '0');
    await until('chores', chore, 'succeeded');
    assert.equal((await look('cows', second)).state, 'queued');
    await cancel('cows', first);
    await until('cows', first, 'cancelled');
    await until('cows', second, 'succeeded');
    await givenBack();
  });

  test('failed jobs and calls release their quota', async () => {
    await until('cows', await submit('cows', 'no number'), 'failed');
    await givenBack();
    const as = tokens.get('cows') ?? '';
    const { status, text } = await call(manager.url, 'POST', '/run/cows', { as, body: '0' });
    assert.equal(status, 200, text);
    await givenBack();
  });

  test('a job larger than the quota waits with a reason, blocks no other job, and runs when the quota is raised', async () => {
    await create('bulls', people.alice, '0.5');
    const large = await submit('bulls', '0');
    await until('bulls', large, 'queued', /^waits for its queue oscar-lq-bulls: .*insufficient quota for cpu/);
    await until('cows', await submit('cows', '0'), 'succeeded');
    await setCpuOfAlice('500m');
    await until('bulls', large, 'succeeded');
    await givenBack();
    await setCpuOfAlice('100m');
  });

  test('a stopped queue evicts running jobs once, with the reason', async () => {
    const id = await submit('cows', '600');
    await runs(id);
    await changeQueue({ spec: { stopPolicy: 'HoldAndDrain' } });
    const { timeline, attempts } = await until(
      'cows',
      id,
      'failed',
      /took back the leave to run it: its queue oscar-lq/,
    );
    assert.equal(timeline.at(-1)?.reason, 'Evicted');
    assert.match(timeline.at(-1)?.message ?? '', /stopped/);
    const next = await submit('cows', '0');
    await until('cows', next, 'queued', /waits for its queue/);
    await changeQueue({ spec: { stopPolicy: 'None' } });
    await until('cows', next, 'succeeded');
    assert.equal(attempts.length, 1);
    assert.equal(our.countRuns(id), 1);
    await givenBack();
  });

  test('a waiting job is admitted once by the next manager after a kill', async () => {
    const first = await submit('cows', '600');
    await runs(first);
    const second = await submit('cows', '0');
    await until('cows', second, 'queued', /waits for its queue/);
    manager.child.kill('SIGKILL');
    manager = await our.replica(settings());
    await until('cows', second, 'queued', /waits for its queue/);
    await cancel('cows', first);
    const { attempts } = await until('cows', second, 'succeeded');
    assert.equal(attempts.length, 1);
    assert.equal(our.countRuns(second), 1);
    await givenBack();
  });

  test("deleting a service deletes its queue and keeps the owner's quota", async () => {
    const { status, text } = await call(manager.url, 'DELETE', '/system/services/bulls', { as: people.alice });
    assert.equal(status, 204, text);
    const local = '/apis/kueue.x-k8s.io/v1beta2/localqueues';
    await eventually(async () => {
      const { items } = (await our.cluster.admin.do('GET', local)) as unknown as { items: Queue[] };
      assert.deepEqual(
        items.map(({ metadata }) => metadata.name),
        ['oscar-lq-cows'],
      );
    });
    await queueOfAlice();
  });

  describe('in the store', () => {
    let cluster: KubernetesCluster;
    let stop = async () => {};
    let make: (known?: Partial<NewJob>) => Promise<JobRecord>;

    before(async () => {
      manager.child.kill('SIGTERM');
      await manager.ended;
      cluster = await openKubernetesCluster({
        kubeconfig: await our.cluster.managerKubeconfig(),
        namespace: MANAGER_NAMESPACE,
        servicesNamespace: SERVICES_NAMESPACE,
        controllerServiceAccount: SERVICE_ACCOUNT,
        settingsName: 'config.yaml',
        objectStore: { endpoint: 'http://minio.minio:9000', verify: true, region: 'us-east-1' },
        rate: { perSecond: 1_000, burst: 1_000 },
        kueue: { flavor: 'f', millicores: 100, memoryBytes: 2 ** 28, gpus: 0, ephemeralBytes: 2 ** 30 },
        report: (problem) => process.stderr.write(`${String(problem)}\n`),
      });
      const [mirror, outOfQueue] = [cluster.statusMirror(), cluster.workloadReconciler()];
      mirror.start();
      outOfQueue?.start();
      stop = async () => {
        await Promise.all([mirror.stop(), outOfQueue?.stop()]);
        await cluster.close();
      };
      const found = await cluster.services.get('cows');
      assert.ok(found);
      const { uid: serviceUid, owner } = found.service;
      const demand = { cpu: 100, memory: 2 ** 24, gpu: 0 };
      make = (known = {}) =>
        accepted(cluster.jobs, sampleJob(randomUUID(), { service: 'cows', serviceUid, owner, demand, ...known }));
    });

    after(() => stop());

    const becomes = async ({ version, ...key }: JobRecord, change: Partial<JobProgress>) =>
      cluster.jobs.update(key, version, change);
    const letIn = (key: JobKey) =>
      eventually(
        async () => {
          const record = await cluster.jobs.get(key);
          assert.ok(record);
          assert.equal(record.held, undefined);
          return record;
        },
        PATIENCE,
        EVERY_MS,
      );
    const shows = (key: JobKey, wanted: string) =>
      eventually(async () => {
        const { namespace, name } = (await cluster.jobs.object(key)) ?? {};
        const job = await our.cluster.admin.do('GET', `/apis/batch/v1/namespaces/${namespace}/jobs/${name}`);
        const { conditions = [] } =
          (job as { status?: { conditions?: { type: string; status: string }[] } }).status ?? {};
        const holds = conditions.filter(({ status }) => status === 'True').map(({ type }) => type);
        assert.ok(holds.includes(wanted), JSON.stringify(job['status']));
      }, PATIENCE);

    test('a delegated job uses no quota here and waits again when it comes back', async () => {
      const first = await letIn(await make());
      const away = await becomes(await becomes(first, { state: 'offering' }), { state: 'delegated' });
      await givenBack();
      await shows(away, 'Suspended');
      const second = await letIn(await make());
      const back = await becomes(away, { state: 'queued' });
      assert.match(back.held ?? '', /waits for its queue oscar-lq-cows/);
      await becomes(second, { state: 'cancelled', finishedAt: Date.now() });
      const again = await letIn(back);
      const running = await becomes(again, { state: 'running', startedAt: Date.now() });
      await becomes(running, { state: 'succeeded', finishedAt: Date.now() });
      await shows(running, 'Complete');
      await givenBack();
    });

    test('a job that ends while it is delegated or waiting is finished for Kueue too', async () => {
      const first = await letIn(await make());
      const held = await make();
      await becomes(held, { state: 'cancelled', finishedAt: Date.now() });
      await shows(held, 'Failed');
      const away = await becomes(await becomes(first, { state: 'offering' }), { state: 'delegated' });
      await givenBack();
      await becomes(await becomes(away, { state: 'committing' }), { state: 'succeeded', finishedAt: Date.now() });
      await shows(first, 'Complete');
      await becomes(await letIn(await make()), { state: 'failed', finishedAt: Date.now() });
      await givenBack();
    });

    test('a removed job leaves a tombstone', async () => {
      const object = { bucket: 'b', key: 'k', modifiedAt: 1 };
      const first = await letIn(await make({ trigger: 'storage', object }));
      await becomes(first, { state: 'succeeded', finishedAt: Date.now() });
      await shows(first, 'Complete');
      await givenBack();
      assert.equal(await cluster.jobs.remove(first), true);
      assert.equal(await cluster.jobs.get(first), undefined);
    });
  });
});

const CPU_QUOTA = '/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota';
