import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { namespaceFor } from '../src/identity/index.ts';
import { ControlPlane } from '../test/kubernetes/control-plane.ts';
import { MANAGER_NAMESPACE, SERVICE_ACCOUNT } from '../test/kubernetes/manager-rights.ts';
import { SERVICES_NAMESPACE } from '../test/kubernetes/testbed.ts';
import { ALICE } from '../test/support/issuer-users.ts';
import { callsOf } from './support/api-calls.ts';
import { type ApiAccess, type ApiConnection, accessOf, connectToApi } from './support/api-connection.ts';
import { atOnce } from './support/at-once.ts';
import { bareCreate, CALLS_OF_A_CREATE, type Pattern, patternOf } from './support/bare-create.ts';
import type { Figure, Measured } from './support/benchmark.ts';
import { connect } from './support/connection.ts';
import { interleaved, repeated } from './support/interleaved.ts';
import { type ManagerProcess, startManagerProcess } from './support/manager-process.ts';
import { createServices, creating, listing, namesOf, reading } from './support/services.ts';
import { type SideBySide, sideBySide } from './support/side-by-side.ts';
import { median } from './support/statistics.ts';
import { CONNECTIONS, throughput } from './support/throughput.ts';
import { type BenchUser, startUser } from './support/user.ts';

export const description = 'services in a real Kubernetes API, beside the bare calls to it';

export const figures = {
  create: { what: 'create a service in Kubernetes, median', unit: 'ms', reach: ['≤', 300], goManager: '6.5 s' },
  createSlowest: { what: '… 99th percentile', unit: 'ms', reach: ['≤', 300] },
  createBare: { what: '… the API calls that it consists of, median', unit: 'ms' },
  createBareSlowest: { what: '… … 99th percentile', unit: 'ms' },
  createRatio: { what: '… time relative to them', unit: '%' },
  createAmongMany: { what: '… among 1,000 services, median', unit: 'ms', reach: ['≤', 300] },
  creates: { what: 'create services, 16 connections, no limit of our own', unit: '/s' },
  createsBare: { what: '… the API calls that they consist of', unit: '/s' },
  createsRatio: { what: '… rate relative to them', unit: '%' },
  createsByDefault: { what: '… with the default OSCAR_KUBERNETES_RATE', unit: '/s' },
  read: { what: 'GET a service among 1,000, median', unit: 'ms' },
  readSlowest: { what: '… 99th percentile', unit: 'ms' },
  readBare: { what: '… GET of its ConfigMap, median', unit: 'ms' },
  readBareSlowest: { what: '… … 99th percentile', unit: 'ms' },
  readRatio: { what: '… time relative to it', unit: '%' },
  reads: { what: 'GET services, 16 connections', unit: '/s' },
  readsBare: { what: '… GET of ConfigMaps', unit: '/s' },
  readsRatio: { what: '… rate relative to it', unit: '%' },
  list: { what: 'list of 1,000 services, median', unit: 'ms' },
  listSlowest: { what: '… 99th percentile', unit: 'ms' },
  listBare: { what: '… list of their ConfigMaps, median', unit: 'ms' },
  listBareSlowest: { what: '… … 99th percentile', unit: 'ms' },
  listRatio: { what: '… time relative to it', unit: '%' },
  lists: { what: 'lists of 1,000 services, 16 connections', unit: '/s' },
  listsBare: { what: '… lists of their ConfigMaps', unit: '/s' },
  listsRatio: { what: '… rate relative to it', unit: '%' },
  start: { what: 'start to synced and listening, 1,000 services', unit: 'ms' },
  memory: { what: '… idle memory', unit: 'MB' },
  cpu: { what: '… idle CPU, of one core', unit: '%' },
} satisfies Record<string, Figure>;

const SERVICES = 1_000;

/** One after the other, each beside its bare calls; a tenth of them first, to warm up. */
const TURNS = { create: 220, createAmongMany: 110, read: 1_100, list: 110 };

const STARTS = 5;

/** After which a manager that was just started counts as idle, and how long its CPU is then looked at. */
const QUIET_MS = 2_000;
const IDLE_MS = 20_000;

/** More than the API server can answer, so that it is the API that is measured. */
const UNLIMITED = { OSCAR_KUBERNETES_RATE: '100000', OSCAR_KUBERNETES_BURST: '100000' };

/** Where the services of the user are. */
const NAMESPACE = namespaceFor(ALICE.sub, SERVICES_NAMESPACE);
const CONFIG_MAPS = `/api/v1/namespaces/${NAMESPACE}/configmaps`;

interface Scene {
  readonly plane: ControlPlane;
  readonly user: BenchUser;
  /** Of a manager. */
  readonly settings: Readonly<Record<string, string>>;
  /** To the API, as that manager has it. */
  readonly access: ApiAccess;
  readonly api: ApiConnection;
}

export async function run(): Promise<Measured<typeof figures>> {
  const plane = await ControlPlane.start();
  try {
    await using user = await startUser();
    const kubeconfig = await plane.managerKubeconfig();
    const access = accessOf(kubeconfig);
    using api = connectToApi(access);
    const scene = { plane, user, access, api, settings: { ...user.settings, ...settingsFor(kubeconfig) } };

    const creates = await measureCreates(scene);
    await removeAll(plane);
    await fill(scene);
    return { ...creates, ...(await measureRest(scene)), ...(await measureReads(scene)) };
  } finally {
    await plane.stop();
  }
}

function settingsFor(kubeconfig: string): Record<string, string> {
  return {
    OSCAR_BACKEND: 'kubernetes',
    KUBECONFIG: kubeconfig,
    OSCAR_NAMESPACE: MANAGER_NAMESPACE,
    OSCAR_SERVICES_NAMESPACE: SERVICES_NAMESPACE,
    OSCAR_CONTROLLER_SERVICE_ACCOUNT: SERVICE_ACCOUNT,
    OSCAR_PASSWORD: 'of nobody here',
    MINIO_ENDPOINT: 'http://127.0.0.1:9000',
    OSCAR_EXTERNAL_STORE: 'none',
    MINIO_ACCESS_KEY: 'store',
    MINIO_SECRET_KEY: 'of no store',
  };
}

/** In a cluster that has no services at first. */
async function measureCreates(scene: Scene) {
  const { settings, user, api } = scene;
  await using manager = await startManagerProcess({ settings: { ...settings, ...UNLIMITED } });
  const pattern = await firstServices(scene, manager.url);
  const one = await createBeside(scene, manager.url, pattern, { turns: TURNS.create, prefix: 'few' });
  const [bareNames, names, limitedNames] = [newNames('bare-at-once'), newNames('at-once'), newNames('limited')];
  const all = await interleaved(
    () => atOnce(() => bareCreate(api, pattern, MANAGER_NAMESPACE, bareNames.next().value)),
    () => createAtOnce(manager.url, user.as, names),
  );
  await manager.stop();

  await using limited = await startManagerProcess({ settings });
  return {
    create: one.median,
    createSlowest: one.slowest,
    createBare: one.bare,
    createBareSlowest: one.bareSlowest,
    createRatio: one.ratio,
    creates: all.second,
    createsBare: all.first,
    createsRatio: all.ratio * 100,
    createsByDefault: await repeated(() => createAtOnce(limited.url, user.as, limitedNames)),
  };
}

/** Makes a few, and sees to it that the calls beside which creates are measured are the ones they consist of. */
async function firstServices({ plane, user, api }: Scene, url: string): Promise<Pattern> {
  using manager = connect(url, user.as);
  const [first = '', ...others] = namesOf(11);
  // It makes the namespace too.
  await manager.call(creating(first));
  const pattern = await patternOf(api, NAMESPACE, first);
  const calls = await callsOf(plane.admin, others.length, async () => {
    for (const name of others) await manager.call(creating(name));
  });
  assert.deepEqual(calls, CALLS_OF_A_CREATE, 'the calls of a create have changed: bring bare-create.ts up to date');
  const bare = await callsOf(plane.admin, others.length, async () => {
    for (const name of others) await bareCreate(api, pattern, MANAGER_NAMESPACE, `bare-${name}`);
  });
  assert.deepEqual(bare, CALLS_OF_A_CREATE, 'bare-create.ts makes other calls than it says');
  return pattern;
}

async function createBeside(
  { user, api }: Scene,
  url: string,
  pattern: Pattern,
  { turns, prefix }: { turns: number; prefix: string },
): Promise<SideBySide> {
  using manager = connect(url, user.as);
  return await sideBySide(
    turns,
    (turn) => manager.call(creating(`${prefix}-${turn}`)),
    (turn) => bareCreate(api, pattern, MANAGER_NAMESPACE, `bare-${prefix}-${turn}`),
  );
}

async function createAtOnce(url: string, as: string, names: Generator<string, never>): Promise<number> {
  using closing = new DisposableStack();
  const connections = Array.from({ length: CONNECTIONS }, () => closing.use(connect(url, as)));
  return await atOnce(async (index) => connections[index]?.call(creating(names.next().value)));
}

function* newNames(prefix: string): Generator<string, never> {
  for (let count = 0; ; count++) yield `${prefix}-${count}`;
}

async function removeAll({ admin }: ControlPlane): Promise<void> {
  for (const plural of ['configmaps', 'secrets', 'podtemplates']) {
    await admin.do('DELETE', `/api/v1/namespaces/${NAMESPACE}/${plural}`);
  }
}

async function fill({ settings, user }: Scene): Promise<void> {
  await using manager = await startManagerProcess({ settings: { ...settings, ...UNLIMITED } });
  await createServices(SERVICES, manager.url, user.as);
}

/** Idle managers. */
async function measureRest({ settings }: Scene) {
  const starts: number[] = [];
  const memory: number[] = [];
  const cpu: number[] = [];
  for (let start = 1; start <= STARTS; start++) {
    await using manager = await startManagerProcess({ settings });
    starts.push(manager.startedIn);
    await pause(QUIET_MS);
    memory.push(manager.memory());
    if (start === STARTS) cpu.push(await cpuOver(IDLE_MS, manager));
  }
  return { start: median(starts), memory: median(memory), cpu: median(cpu) };
}

async function cpuOver(ms: number, manager: ManagerProcess): Promise<number> {
  const [before, begun] = [manager.cpu(), performance.now()];
  await pause(ms);
  return ((manager.cpu() - before) / ((performance.now() - begun) / 1_000)) * 100;
}

async function measureReads(scene: Scene) {
  const { settings, user, api, access } = scene;
  await using manager = await startManagerProcess({ settings: { ...settings, ...UNLIMITED } });
  const { url } = manager;
  const { as } = user;
  using ours = connect(url, as);
  const names = namesOf(SERVICES);
  const nameAt = (turn: number) => names[turn % SERVICES] ?? '';
  const bareRead = (name: string) => ({ method: 'GET', path: `${CONFIG_MAPS}/${name}` });
  const bareList = { method: 'GET', path: '/api/v1/configmaps?labelSelector=oscar_service' };

  const read = await sideBySide(
    TURNS.read,
    (turn) => ours.call({ ...reading(nameAt(turn)), body: '' }),
    (turn) => api.ask('GET', bareRead(nameAt(turn)).path),
  );
  const reads = await interleaved(
    () => throughput({ ...access, requests: names.map(bareRead) }),
    () => throughput({ url, as, requests: names.map(reading) }),
  );
  const list = await sideBySide(
    TURNS.list,
    () => ours.call({ ...listing, body: '' }),
    () => api.ask('GET', bareList.path),
  );
  const lists = await interleaved(
    () => throughput({ ...access, requests: [bareList] }),
    () => throughput({ url, as, requests: [listing] }),
  );
  const pattern = await patternOf(api, NAMESPACE, nameAt(0));
  const create = await createBeside(scene, url, pattern, { turns: TURNS.createAmongMany, prefix: 'many' });
  return {
    createAmongMany: create.median,
    read: read.median,
    readSlowest: read.slowest,
    readBare: read.bare,
    readBareSlowest: read.bareSlowest,
    readRatio: read.ratio,
    reads: reads.second,
    readsBare: reads.first,
    readsRatio: reads.ratio * 100,
    list: list.median,
    listSlowest: list.slowest,
    listBare: list.bare,
    listBareSlowest: list.bareSlowest,
    listRatio: list.ratio,
    lists: lists.second,
    listsBare: lists.first,
    listsRatio: lists.ratio * 100,
  };
}
