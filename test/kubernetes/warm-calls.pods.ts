import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { BUSYBOX } from '../docker/busybox.ts';
import { eventually, Outside } from '../support/jobs.ts';
import { ADMIN } from '../support/manager.ts';
import { PodManagers, type Replica } from './pod-managers.ts';
import { SERVICES_NAMESPACE } from './testbed.ts';

/** A short lease, so that a killed leader is replaced soon. */
const LEADER = { OSCAR_LEADER_SECONDS: '6' };

const PODS = `/api/v1/namespaces/${SERVICES_NAMESPACE}/pods`;

interface Pod {
  readonly metadata: { readonly name: string; readonly deletionTimestamp?: string };
  readonly status: { readonly containerStatuses?: readonly { readonly state?: { readonly running?: object } }[] };
}

describe('warm pods', { timeout: 600_000 }, () => {
  let our: PodManagers;
  let replicas: Replica[];
  let outside: Outside;

  before(async () => {
    our = await PodManagers.start();
    replicas = await Promise.all([our.replica(LEADER), our.replica(LEADER)]);
    outside = new Outside(() => replicas.find(({ child }) => child.exitCode === null && !child.killed)?.url ?? '');
    await our.leader(replicas);
  });
  after(() => our?.stop());

  const definition = (name: string, script: string, synchronous: object, more: object = {}) => ({
    name,
    image: BUSYBOX,
    cpu: '0.05',
    memory: '32Mi',
    script: `#!/bin/sh\n${script}\n`,
    synchronous,
    ...more,
  });

  async function warm(name: string): Promise<Pod[]> {
    const selector = encodeURIComponent(`oscar_service=${name},oscar.grycap/warm`);
    const { items } = await our.cluster.admin.do('GET', `${PODS}?labelSelector=${selector}`);
    return (items as Pod[]).filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  }

  /** Waits for a ready pod other than the last one, and returns its name. */
  const ready = (name: string, last = '') =>
    eventually(async () => {
      const [pod, ...others] = await warm(name);
      assert.deepEqual(others, []);
      assert.ok(
        pod && pod.metadata.name !== last && pod.status.containerStatuses?.[0]?.state?.running,
        'none is ready',
      );
      return pod.metadata.name;
    });

  async function run(name: string, as: string): Promise<string> {
    const { status, text } = await outside.call('POST', `/run/${name}`, { as, body: '{}' });
    assert.equal(status, 200, text);
    return text.trim();
  }

  test('calls are answered from warm pods, even on a full cluster, and the pods follow changes of the service', async () => {
    const service = definition('greets', 'hostname', { min_scale: 1 });
    const token = await outside.create(ADMIN, service);
    const first = await ready('greets');
    assert.equal(await run('greets', token), first);
    const second = await ready('greets', first);

    const large = definition('large', 'sleep 1000', {}, { cpu: await spareCpu(our) });
    const id = await outside.submit(await outside.create(ADMIN, large), 'large', '{}');
    await outside.running(ADMIN, 'large', id);
    // A job of the same owner, so that it is before the call in the queue.
    const waits = await outside.submit(token, 'greets', '{}');
    assert.equal((await outside.job(ADMIN, 'greets', waits)).state, 'queued');
    assert.equal(await run('greets', token), second);
    await outside.call('DELETE', `/system/jobs/large/${id}`, { as: ADMIN });
    assert.equal((await outside.ended('greets', waits)).state, 'succeeded');

    const third = await ready('greets', second);
    const changed = { ...service, memory: '40Mi' };
    const { status, text } = await outside.call('PUT', '/system/services', { as: ADMIN, body: changed });
    assert.ok(status < 300, text);
    const fourth = await ready('greets', third);
    assert.equal(await run('greets', token), fourth);
    await outside.call('DELETE', '/system/services/greets', { as: ADMIN });
    await eventually(async () => assert.deepEqual(await warm('greets'), []));
  });

  test('calls continue when the leader dies: the next leader uses the pods, and no call runs twice', async () => {
    const token = await outside.create(ADMIN, definition('stays', `${our.reportRun}\nhostname`, { min_scale: 1 }));
    const waits = await ready('stays');
    const leader = await our.leader(replicas);
    leader.child.kill('SIGKILL');
    replicas = replicas.filter((each) => each !== leader);
    const answer = await run('stays', token);
    assert.equal(answer, waits);
    const [job] = await outside.jobs(ADMIN, 'stays');
    assert.equal(our.countRuns(job?.id ?? ''), 1);
    await ready('stays', waits);
  });
});

/** The CPU request that leaves no free capacity for one more pod. */
async function spareCpu(our: PodManagers): Promise<string> {
  const { items } = await our.cluster.admin.do('GET', '/api/v1/nodes');
  const [node] = items as { status: { allocatable: { cpu: string } } }[];
  const total = millicores(node?.status.allocatable.cpu ?? '0');
  const { items: pods } = await our.cluster.admin.do('GET', '/api/v1/pods');
  const asked = (pods as Asking[]).flatMap(({ spec, status }) =>
    status.phase === 'Succeeded' || status.phase === 'Failed'
      ? []
      : [...spec.containers, ...(spec.initContainers ?? [])],
  );
  const used = asked.reduce((sum, { resources }) => sum + millicores(resources?.requests?.cpu ?? '0'), 0);
  return `${total - used - 40}m`;
}

const millicores = (cpu: string) => (cpu.endsWith('m') ? Number(cpu.slice(0, -1)) : Number(cpu) * 1_000);

interface Asking {
  readonly spec: Record<'containers' | 'initContainers', { resources?: { requests?: { cpu?: string } } }[]>;
  readonly status: { readonly phase: string };
}
