import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../../ports/conformance/eventually.ts';
import type { StandbyRequest } from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { ApiError } from '../client/api-error.ts';
import type { KubeKind, ObjectRef, Stored } from '../client/kinds.ts';
import { warmKey } from './claim.ts';
import { ATTEMPT, POD, type Pod, WARM } from './pod.ts';
import { type PodCache, PodsByAttempt } from './pod-cache.ts';
import { ATTEMPT as SAMPLE, SETTINGS } from './pods.fixture.ts';
import { WarmPool } from './warm-pool.ts';

const TRAITS = { namespace: 'ns', labels: {}, annotations: {}, imagePullSecrets: [], sgx: false };
const order = (service: string, count: number, image = 'busybox'): StandbyRequest => ({
  service,
  count,
  image,
  demand: SAMPLE.demand,
  traits: TRAITS,
});
const job = (service: string, id = '1') => ({ service, id });

/** The pods of an API server that executes each request at once and notifies its watches. */
class Pods {
  readonly all = new Map<string, Stored<Pod>>();
  readonly seen: PodsByAttempt;
  readonly options = { patienceMs: 0, random: () => 0 };
  readonly services = new Set<string>();
  /** The creation time of pods. */
  clock = Date.now();
  refuses = false;
  asked = 0;
  #version = 0;

  constructor(changed: () => void) {
    const report = (problem: unknown) => assert.fail(String(problem));
    this.seen = new PodsByAttempt({ attempt: () => undefined, waiting: changed }, report);
  }

  /** The only other objects are the definitions of services. */
  async get({ plural }: KubeKind, { name = '', namespace = '' }: ObjectRef): Promise<unknown> {
    return plural === 'configmaps' && this.services.has(name)
      ? { metadata: { name, namespace, uid: `uid-of-${name}` } }
      : undefined;
  }

  async post(_kind: KubeKind, _namespace: string, pod: Pod): Promise<Stored<Pod>> {
    this.asked++;
    if (this.refuses) throw new ApiError(403, { message: 'exceeded quota' });
    const made = { uid: pod.metadata.name, creationTimestamp: new Date(this.clock).toISOString() };
    return this.#put({ ...pod, metadata: { ...pod.metadata, ...made } } as Stored<Pod>);
  }

  async delete(
    _kind: KubeKind,
    { name = '' }: ObjectRef,
    { resourceVersion }: { resourceVersion?: string },
  ): Promise<void> {
    const pod = this.all.get(name);
    if (!pod) throw new ApiError(404, {});
    if (pod.metadata.resourceVersion !== resourceVersion) throw new ApiError(409, {});
    this.all.delete(name);
    this.seen.onDeleted(pod);
  }

  become(name: string, status: Pod['status']): void {
    const pod = this.all.get(name);
    if (pod) this.seen.onChanged(this.#put({ ...pod, ...(status && { status }) }));
  }

  claim(name: string): void {
    const pod = this.all.get(name);
    if (!pod) return;
    const labels = { [ATTEMPT]: 'cows-1' };
    this.seen.onChanged(
      this.#put({
        ...pod,
        metadata: { ...pod.metadata, labels, annotations: { 'oscar.grycap/attempt-claimed': '1' } },
      }),
    );
  }

  ready(): void {
    for (const name of this.names()) this.become(name, READY);
  }

  /** The names of the warm pods. */
  names(image?: string): string[] {
    return [...this.all.values()]
      .filter(({ metadata }) => metadata.labels?.[WARM] !== undefined)
      .filter((pod) => image === undefined || imageOf(pod) === image)
      .map(({ metadata }) => metadata.name);
  }

  #put(pod: Stored<Pod>): Stored<Pod> {
    const next = { ...pod, metadata: { ...pod.metadata, resourceVersion: String(++this.#version) } };
    this.all.set(pod.metadata.name, next);
    return next;
  }
}

const READY: Pod['status'] = {
  phase: 'Running',
  initContainerStatuses: [{ name: 'stage-out', state: { running: { startedAt: '2026-01-01T00:00:00Z' } } }],
  containerStatuses: [{ name: 'oscar-container', state: { running: { startedAt: '2026-01-01T00:00:00Z' } } }],
};

const imageOf = ({ spec }: Pod) => (spec['containers'] as { image: string }[])[0]?.image;

function scene(t: { after(end: () => void): void }, listed = Promise.resolve()) {
  const closing = new AbortController();
  t.after(() => closing.abort());
  const problems: unknown[] = [];
  const pods: Pods = new Pods(() => pool?.reconcile());
  const podCache = {
    open: () => listed,
    waiting: pods.seen.waiting,
    putPod: (pod: Stored<Pod>) => pods.seen.put(pod),
  };
  const deps = {
    api: pods as unknown as Api,
    podCache: podCache as unknown as PodCache,
    settings: SETTINGS,
    report: (problem: unknown) => void problems.push(problem),
  };
  const pool: WarmPool = new WarmPool(deps, closing.signal);
  const there = (count: number, image?: string) => eventually(() => assert.equal(pods.names(image).length, count));
  return { pool, pods, problems, there };
}

test('warm pods: exactly as many pods wait as are wanted', async (t) => {
  const { pool, there } = scene(t);
  pool.setRequests([order('cows', 3), order('pigs', 1, 'alpine')]);
  await there(3, 'busybox');
  await there(1, 'alpine');
  pool.setRequests([order('cows', 1)]);
  await there(1, 'busybox');
  await there(0, 'alpine');
  pool.setRequests([]);
  await there(0);
});

test('warm pods: a new leader creates none before it has listed the existing ones', async (t) => {
  const listed = Promise.withResolvers<void>();
  const { pool, pods, there } = scene(t, listed.promise);
  const first = scene(t);
  first.pool.setRequests([order('cows', 2)]);
  await first.there(2);
  pool.setRequests([order('cows', 3)]);
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
  assert.equal(pods.asked, 0);
  for (const pod of first.pods.all.values()) await pods.post(POD, 'ns', pod);
  pods.seen.onListed([...pods.all.values()], '99');
  listed.resolve();
  await there(3);
  assert.equal(pods.asked, 3);
});

test('warm pods: a warm pod is owned by its service, is removed with it, and does not block the drain of a node', async (t) => {
  const { pool, pods, there } = scene(t);
  pods.services.add('cows');
  pool.setRequests([order('cows', 1)]);
  await there(1);
  const [pod] = pods.all.values();
  assert.deepEqual(pod?.metadata.ownerReferences, [
    { apiVersion: 'v1', kind: 'ConfigMap', name: 'cows', uid: 'uid-of-cows', controller: true },
  ]);
  assert.deepEqual([pod.metadata.labels?.[WARM]], [warmKey('cows', order('cows', 1), 'ns', SETTINGS)]);
});

test('warm pods: a ready pod is reserved for one job, and replaced once the job has it', async (t) => {
  const { pool, pods, there } = scene(t);
  pool.setRequests([order('cows', 1)]);
  await there(1);
  assert.equal(pool.claim(job('cows')), false);
  pods.ready();
  assert.equal(pool.claim(job('pigs')), false);
  assert.equal(pool.claim(job('cows')), true);
  assert.equal(pool.claim(job('cows')), true);
  assert.equal(pool.claim(job('cows', '2')), false);
  const [name = ''] = pods.names();
  const attempt = { ...SAMPLE, answer: true, traits: { ...TRAITS, job: job('cows') } };
  assert.equal(pool.choose(attempt), name);
  pods.claim(name);
  await there(1);
  assert.notDeepEqual(pods.names(), [name]);
});

test('warm pods: a pod whose helper container has died is not ready', async (t) => {
  const { pool, pods, there } = scene(t);
  pool.setRequests([order('cows', 1)]);
  await there(1);
  const [name = ''] = pods.names();
  pods.become(name, { ...READY, initContainerStatuses: [{ name: 'stage-out', state: { waiting: {} } }] });
  assert.equal(pool.claim(job('cows')), false);
});

test('warm pods: a pod that does not fit the attempt is not chosen, and stays free for others', async (t) => {
  const { pool, pods, there } = scene(t);
  pool.setRequests([order('cows', 1)]);
  await there(1);
  pods.ready();
  const traits = { ...TRAITS, job: job('cows') };
  assert.equal(pool.choose({ ...SAMPLE, answer: true, image: 'changed', traits }), undefined);
  assert.equal(pool.choose({ ...SAMPLE, answer: false, traits }), undefined);
  assert.equal(pool.claim(job('cows', '2')), true);
});

test('warm pods: listeners are notified once of each ready pod, and again after it was returned', async (t) => {
  const { pool, pods, there } = scene(t);
  const told: string[] = [];
  const end = pool.onReady((service) => told.push(service));
  pool.setRequests([order('cows', 1)]);
  await there(1);
  pods.ready();
  await eventually(() => assert.deepEqual(told, ['cows']));
  pool.claim(job('cows'));
  pool.release(job('cows'));
  await eventually(() => assert.deepEqual(told, ['cows', 'cows']));
  end();
  pool.claim(job('cows'));
  pool.release(job('cows'));
  await new Promise(setImmediate);
  assert.equal(told.length, 2);
});

test('warm pods: a pod that dies is removed and replaced', async (t) => {
  const { pool, pods, there } = scene(t);
  pool.setRequests([order('cows', 1)]);
  await there(1);
  const [name = ''] = pods.names();
  pods.become(name, { phase: 'Failed' });
  await eventually(() => assert.ok(!pods.all.has(name)));
  await there(1);
});

test('warm pods: pods older than a day are replaced one by one, except reserved ones', async (t) => {
  const { pool, pods, there } = scene(t);
  pods.clock -= 25 * 3_600_000;
  pool.setRequests([order('cows', 3)]);
  await there(3);
  pods.clock = Date.now();
  const [aside = '', ...others] = pods.names();
  pods.become(aside, READY);
  assert.equal(pool.claim(job('cows')), true);
  pods.ready();
  for (const [index] of others.entries()) {
    await eventually(() => assert.equal(others.filter((name) => pods.all.has(name)).length, 1 - index));
    await there(3);
    pods.ready();
  }
  assert.ok(pods.all.has(aside));
  const now = pods.names();
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
  assert.deepEqual(pods.names(), now);
});

test('warm pods: a reserved pod stays when other pods are wanted, until its job has it or returns it', async (t) => {
  const { pool, pods, there } = scene(t);
  pool.setRequests([order('cows', 2)]);
  await there(2);
  pods.ready();
  assert.equal(pool.claim(job('cows')), true);
  pool.setRequests([order('cows', 1, 'alpine')]);
  await there(1, 'busybox');
  await there(1, 'alpine');
  pool.release(job('cows'));
  await there(0, 'busybox');
});

test('warm pods: an API server that rejects a pod is not asked in a loop', async (t) => {
  const { pool, pods, problems } = scene(t);
  pods.refuses = true;
  pool.setRequests([order('cows', 2)]);
  await eventually(() => assert.equal(problems.length, 2));
  for (let turn = 0; turn < 20; turn++) {
    pool.reconcile();
    await new Promise(setImmediate);
  }
  assert.equal(pods.asked, 2);
});

test('warm pods: a manager that no longer leads changes nothing', async (t) => {
  const { pool, pods, there } = scene(t);
  pool.setRequests([order('cows', 2)]);
  await there(2);
  pods.ready();
  pool.standDown();
  pool.reconcile();
  await new Promise(setImmediate);
  assert.equal(pods.names().length, 2);
  assert.equal(pool.claim(job('cows')), false);
});
