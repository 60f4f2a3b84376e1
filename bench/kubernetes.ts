import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { GetBucketNotificationConfigurationCommand } from '@aws-sdk/client-s3';
import { namespaceFor } from '../src/identity/index.ts';
import { storeClient } from '../src/ports/conformance/object-store-under-test.fixture.ts';
import { BUSYBOX } from '../test/docker/busybox.ts';
import { PodManagers } from '../test/kubernetes/pod-managers.ts';
import { SERVICES_NAMESPACE } from '../test/kubernetes/testbed.ts';
import { ROOT } from '../test/minio/minio.ts';
import { ALICE } from '../test/support/issuer-users.ts';
import { eventually, Outside } from '../test/support/jobs.ts';
import { ADMIN } from '../test/support/manager.ts';
import { connectToApi } from './support/api-connection.ts';
import type { Figure, Measured } from './support/benchmark.ts';
import { connect } from './support/connection.ts';
import { interleaved } from './support/interleaved.ts';
import { NO_FILES, scriptService } from './support/job-manager.ts';
import { type KubernetesSite, startKubernetesSite } from './support/kubernetes-site.ts';
import type { ManagerProcess } from './support/manager-process.ts';
import { attemptPattern, PlainJobs } from './support/plain-jobs.ts';
import { creating } from './support/services.ts';
import { betweenLooks, startTimes } from './support/start-times.ts';
import { median, percentile } from './support/statistics.ts';
import { ROUND_SECONDS, throughput } from './support/throughput.ts';
import { type BenchUser, startUser } from './support/user.ts';

export const description =
  'services and jobs on a real Kubernetes with a real MinIO, beside what is done without a manager';

export const figures = {
  create: {
    what: 'create a service, its buckets and rules in MinIO included, median',
    unit: 'ms',
    reach: ['≤', 300],
    goManager: '6.5 s',
  },
  createSlowest: { what: '… 99th percentile', unit: 'ms' },
  accepted: {
    what: 'jobs accepted by `/job`, 64 in flight',
    unit: '/s',
    reach: ['≥', 150],
    goManager: '2.6/s (73/s without its throttle)',
  },
  acceptedBare: { what: '… the same Jobs created through the API', unit: '/s' },
  acceptedRatio: { what: '… rate relative to it', unit: '%' },
  acceptedCpu: { what: '… CPU of the manager for each, until it is shown in its status', unit: 'ms' },
  started: { what: 'from asking for a job to its script, median', unit: 'ms', goManager: '4.6 s (smallest Job)' },
  startedSlow: { what: '… 95th percentile', unit: 'ms' },
  startedPlain: { what: '… a Job of Kubernetes with the same pod, median', unit: 'ms' },
  startedPlainSlow: { what: '… … 95th percentile', unit: 'ms' },
  startedRatio: { what: '… time relative to it', unit: '%', reach: ['≤', 120] },
  startedAlone: { what: '… a Job with the container of the script alone, median', unit: 'ms' },
  startedAnswer: { what: '… until `/job` is answered, median', unit: 'ms' },
  called: { what: '`/run` answered from a pod that was kept ready, median', unit: 'ms' },
  calledSlow: { what: '… 95th percentile', unit: 'ms' },
  calledCold: { what: '… from a pod that is started for it, median', unit: 'ms' },
  calledColdSlow: { what: '… … 95th percentile', unit: 'ms' },
} satisfies Record<string, Figure>;

/** One after the other; the first ones warm up and do not count. */
const CREATES = { counted: 100, before: 10 };
const STARTS = { counted: 21, before: 3 };
const CALLS = { counted: 21, before: 2 };

const IN_FLIGHT = 64;

/** Requests that the manager has on their way at once, however many ask it. */
const API_CONNECTIONS = 32;

/** A manager that uses no more CPU than this in that time has done what it had to. */
const CALM = { ms: 1_000, cpuSeconds: 0.05, withinMs: 120_000 };

/** Where the services of the user are. */
const NAMESPACE = namespaceFor(ALICE.sub, SERVICES_NAMESPACE);

export async function run(): Promise<Measured<typeof figures>> {
  await using user = await startUser();
  return { ...(await onControlPlane(user)), ...(await onNode()) };
}

async function onControlPlane(user: BenchUser) {
  await using site = await startKubernetesSite(user);
  return { ...(await createServices(site, user)), ...(await acceptJobs(site, user)) };
}

async function createServices({ manager, minio }: KubernetesSite, { as }: BenchUser) {
  using connection = connect(manager.url, as);
  const times: number[] = [];
  for (let turn = 0; turn < CREATES.before + CREATES.counted; turn++) {
    const time = await connection.call(creating(`service-${turn}`));
    if (turn >= CREATES.before) times.push(time);
  }
  const { client } = storeClient(minio, ROOT);
  const rules = await client.send(new GetBucketNotificationConfigurationCommand({ Bucket: 'service-0' }));
  assert.ok(rules.QueueConfigurations?.length, 'the buckets have no rules: that is not what is to be measured');
  client.destroy();
  return { create: median(times), createSlowest: percentile(times, 99) };
}

async function acceptJobs({ manager, outside, access }: KubernetesSite, { as }: BenchUser) {
  const name = 'waits';
  const token = await outside.create(as, scriptService(name, 'true', NO_FILES));
  const body = JSON.stringify({ event: 'of no importance' });
  const id = await outside.submit(token, name, body);
  const bare = { method: 'POST', path: `/apis/batch/v1/namespaces/${NAMESPACE}/jobs`, body: '' };
  const requests = [{ ...bare, body: await sameAgain(`${bare.path}/${id}`, access) }];

  const cpuEach: number[] = [];
  const { first, second, ratio } = await interleaved(
    () => throughput({ ...access, requests, connections: API_CONNECTIONS }),
    async () => {
      const before = manager.cpu();
      const load = { url: manager.url, as: token, requests: [{ method: 'POST', path: `/job/${name}`, body }] };
      const rate = await throughput({ ...load, connections: IN_FLIGHT });
      await calm(manager);
      cpuEach.push(((manager.cpu() - before) * 1_000) / (rate * ROUND_SECONDS));
      return rate;
    },
  );
  return { accepted: second, acceptedBare: first, acceptedRatio: ratio * 100, acceptedCpu: median(cpuEach.slice(1)) };
}

/** A Job that is like this one, under a name that the API chooses, and none that the manager would take for a record. */
async function sameAgain(path: string, access: KubernetesSite['access']): Promise<string> {
  using api = connectToApi(access);
  const { metadata, spec } = JSON.parse(await api.ask('GET', path));
  const { name, labels, annotations } = metadata;
  const { selector: _, template, ...rest } = spec;
  const inPod = { ...template.metadata, labels: without(template.metadata.labels, /(job-name|controller-uid)$/) };
  return JSON.stringify({
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { generateName: `${name.slice(0, 30)}-`, labels: without(labels, /\/record$/), annotations },
    spec: { ...rest, template: { ...template, metadata: inPod } },
  });
}

function without(labels: Record<string, string>, unwanted: RegExp): Record<string, string> {
  return Object.fromEntries(Object.entries(labels).filter(([key]) => !unwanted.test(key)));
}

/** Resolves when the manager has written the status of all that it has accepted, and has heard of it. */
async function calm(manager: ManagerProcess): Promise<void> {
  const deadline = performance.now() + CALM.withinMs;
  while (performance.now() < deadline) {
    const before = manager.cpu();
    await pause(CALM.ms);
    if (manager.cpu() - before < CALM.cpuSeconds) return;
  }
  throw new Error('the manager does not come to rest');
}

async function onNode() {
  const our = await PodManagers.start();
  try {
    const replica = await our.replica({ OSCAR_LOG_LEVEL: 'info' });
    await our.leader([replica]);
    const outside = new Outside(replica.url);
    return { ...(await startJobs(our, outside)), ...(await answerCalls(our, outside)) };
  } finally {
    await our.stop();
  }
}

async function startJobs(our: PodManagers, outside: Outside) {
  const { admin } = our.cluster;
  const definition = scriptService('tells', our.reportRun, { ...NO_FILES, image: BUSYBOX, cpu: '0.1', memory: '32Mi' });
  const token = await outside.create(ADMIN, definition);
  const first = await outside.submit(token, definition.name, '{}');
  const plain = new PlainJobs(admin, await attemptPattern(admin, SERVICES_NAMESPACE, first));
  const ours = throughManager(outside, definition.name, token, plain);
  await ours.end(first);

  for (let turn = 0; turn < STARTS.before + STARTS.counted; turn++) await plain.prepare(`same-${turn}`);
  const ways = {
    ours,
    same: { begin: (turn: number) => plain.same(`same-${turn}`), end: (id: string) => plain.remove(id) },
    alone: {
      begin: (turn: number) => plain.alone(`alone-${turn}`, our.reportRun),
      end: (id: string) => plain.remove(id),
    },
  };
  const times = await startTimes(ways, STARTS, (id) => our.countRuns(id) > 0);
  return {
    started: median(times.ours),
    startedSlow: percentile(times.ours, 95),
    startedPlain: median(times.same),
    startedPlainSlow: percentile(times.same, 95),
    startedRatio: (median(times.ours) / median(times.same)) * 100,
    startedAlone: median(times.alone),
    startedAnswer: median(ours.answers.slice(STARTS.before)),
  };
}

function throughManager(outside: Outside, name: string, token: string, plain: PlainJobs) {
  const answers: number[] = [];
  return {
    /** Milliseconds until each was accepted. */
    answers,
    async begin(turn: number) {
      const begun = performance.now();
      const id = await outside.submit(token, name, JSON.stringify({ turn }));
      answers.push(performance.now() - begun);
      return id;
    },
    /** Removed with its pod: others that were would make the next one slower. */
    async end(id: string) {
      const { state, message } = await outside.ended(name, id);
      assert.equal(state, 'succeeded', `${id}: ${message}`);
      const { status, text } = await outside.call('DELETE', `/system/logs/${name}/${id}`, { as: ADMIN });
      assert.equal(status, 204, text);
      await plain.noPods();
    },
  };
}

/** In turns, so that both have the same of whatever else the machine does. */
async function answerCalls(our: PodManagers, outside: Outside) {
  const like = { ...NO_FILES, image: BUSYBOX, cpu: '0.1', memory: '32Mi' };
  const ways = {
    warm: scriptService('kept-ready', 'echo answered', { ...like, synchronous: { min_scale: 1 } }),
    cold: scriptService('started', 'echo answered', like),
  };
  const tokens = { warm: await outside.create(ADMIN, ways.warm), cold: await outside.create(ADMIN, ways.cold) };
  const times = { warm: [] as number[], cold: [] as number[] };
  for (let turn = 0; turn < CALLS.before + CALLS.counted; turn++) {
    for (const way of ['warm', 'cold'] as const) {
      const waited = way === 'warm' ? await keptReady(our) : '';
      await betweenLooks(turn);
      const begun = performance.now();
      const { status, text, headers } = await outside.call('POST', `/run/${ways[way].name}`, {
        as: tokens[way],
        body: '{}',
      });
      const time = performance.now() - begun;
      assert.deepEqual([status, text], [200, 'answered\n']);
      const used = await podsOf(our, `batch.kubernetes.io/job-name=${headers.get('x-oscar-job-id')}`);
      assert.equal(used.includes(waited), way === 'warm', 'that is not what is to be measured');
      if (turn >= CALLS.before) times[way].push(time);
    }
  }
  return {
    called: median(times.warm),
    calledSlow: percentile(times.warm, 95),
    calledCold: median(times.cold),
    calledColdSlow: percentile(times.cold, 95),
  };
}

/** The name of a pod that waits, when there is one. */
async function keptReady(our: PodManagers): Promise<string> {
  return eventually(async () => {
    const [name] = await podsOf(our, 'oscar.grycap/warm', 'status.phase=Running');
    assert.ok(name !== undefined, 'no pod waits');
    return name;
  });
}

async function podsOf(our: PodManagers, labels: string, fields = ''): Promise<string[]> {
  const query = new URLSearchParams({ labelSelector: labels, fieldSelector: fields });
  const { items } = await our.cluster.admin.do(
    'GET',
    `/api/v1/namespaces/${SERVICES_NAMESPACE}/pods?${query.toString()}`,
  );
  return (items as { metadata: { name: string } }[]).map(({ metadata }) => metadata.name);
}
