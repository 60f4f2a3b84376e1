import { hash, randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LocalCapacity } from '../../src/adapters/local-runner/index.ts';
import { EmbeddedStore } from '../../src/adapters/object-stores/embedded/index.ts';
import { type LocalCluster, openLocalCluster } from '../../src/adapters/sqlite/index.ts';
import {
  commit,
  type DelegationServer,
  DelegationTarget,
  Delegator,
  FederationCache,
  Scoreboard,
  selfOrigin,
  selfTarget,
  snapshotFromNodes,
} from '../../src/delegation/index.ts';
import { Ledgers } from '../../src/federation/index.ts';
import { newServiceToken, UserNames } from '../../src/identity/index.ts';
import { acceptJob, Dispatcher, type Jobs } from '../../src/jobs/index.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { Secret } from '../../src/lib/secret.ts';
import { type JobRecord, writeManifest } from '../../src/model/job/index.ts';
import type { FederationRole, Service } from '../../src/model/service/index.ts';
import { aService } from '../../src/model/service/service.fixture.ts';
import type { Target } from '../../src/peers/index.ts';
import { openObjectStore } from '../../src/s3-server/index.ts';
import type { Services } from '../../src/services/index.ts';
import type { UploadOrder } from '../../src/staging/transfers/staging.ts';
import { createLocalRunner } from './no-op-runner.ts';

/** Everything of a delegation but the network, the disk and the script: a coordinator and its members in this process. */
export interface InProcessFederation extends AsyncDisposable {
  /** So many jobs at once; how many of them end in a second. */
  burst(jobs: number): Promise<number>;
}

const UID = randomUUID();
const NAME = 'bench';
const HERE = 'here';
const STORE = { endpoint: 'http://127.0.0.1:1', region: 'us-east-1', verify: true };

/** Of Linux: a directory that is memory. */
const MEMORY = '/dev/shm';

/** More room than all jobs need: who has none refuses, and that is not what is measured. */
const ROOM = { cpu: 10 ** 9, memory: 2 ** 50 };

export async function startInProcess(members: number): Promise<InProcessFederation> {
  await using opened = new AsyncDisposableStack();
  const directory = mkdtempSync(join(process.platform === 'linux' ? MEMORY : tmpdir(), 'oscar-bench-'));
  opened.defer(() => rmSync(directory, { recursive: true, force: true }));
  const openCluster = (id: string) =>
    opened.adopt(openLocalCluster({ directory: join(directory, id) }), (it) => it.close());
  const problems: unknown[] = [];
  const report = (problem: unknown) => void problems.push(problem);

  const cluster = openCluster(HERE);
  const objectServer = opened.adopt(
    openObjectStore({
      directory: join(directory, 'objects'),
      region: STORE.region,
      manager: { accessKey: 'manager', secret: new Secret('manager-secret') },
      seal: cluster.seal,
    }),
    (it) => it.close(),
  );
  const objects = new EmbeddedStore({ server: objectServer, endpoint: STORE.endpoint });
  await objects.ensureStaging();
  const staging = {
    // As a member does, without the way.
    async upload({ manifest }: Pick<UploadOrder, 'manifest'>) {
      if (!manifest) return undefined;
      const list = writeManifest([]);
      await objectServer.putObject({ bucket: manifest.bucket, key: manifest.key }, list);
      return hash('sha256', list);
    },
  };
  const partsOf = (at: LocalCluster, place: string): Omit<Jobs, 'scheduler'> => ({
    store: at.jobs,
    services: at.services,
    secrets: at.secrets,
    runner: createLocalRunner({ staging }),
    capacity: new LocalCapacity({ ...ROOM, used: () => ({ cpu: 0, memory: 0 }) }),
    objects,
    ownStore: STORE,
    storeAccount: 'manager',
    namedStores: new Map(),
    place,
    node: place,
    timeout: 60_000,
    maxEventBytes: 2 ** 20,
    now: Date.now,
  });

  const ids = Array.from({ length: members }, (_, index) => `member-${index}`);
  const keys = new Map(ids.map((id) => [id, new Secret(`the key of ${id}`)]));
  const service = await addCoordinator(cluster, keys);
  const self = { coordination: { ...cluster, now: Date.now }, authenticate: async () => ({ kind: 'admin' }) as const };
  const coordinator: Partial<DelegationServer> = {
    permit: (...it) => delegator.permit(...it),
    report: (...it) => delegator.report(...it),
  };
  const origin = selfOrigin({
    ...self,
    server: coordinator as DelegationServer,
    workers: workersOf(cluster),
    clusterId: HERE,
  });

  const targets = new Map<string, Target>();
  for (const [id, key] of keys) {
    const at = openCluster(id);
    await addWorker(at, id, key);
    const jobs = partsOf(at, id);
    const dispatcher = opened.adopt(new Dispatcher({ ...jobs, report }), (it) => it.stop());
    const taken = opened.adopt(
      new DelegationTarget({
        ...jobs,
        dispatcher,
        coordinatorOf: async () => ({ origin, key }),
        stores: { registered: new Map(), isOwn: () => true, own: [STORE.endpoint] },
        ownStatus: () => snapshotFromNodes(jobs.capacity.nodes()),
        unreadable: async () => undefined,
        unreachable: async () => undefined,
        report,
      }),
      (it) => it.close(),
    );
    dispatcher.connect({ hostedJobs: taken });
    await dispatcher.start();
    const target: Partial<DelegationServer> = {
      offer: (...it) => taken.offer(...it),
      status: (...it) => taken.status(...it),
    };
    targets.set(id, selfTarget({ ...self, server: target as DelegationServer, workers: workersOf(at), clusterId: id }));
  }

  const jobs = partsOf(cluster, HERE);
  const dispatcher = opened.adopt(new Dispatcher({ ...jobs, report }), (it) => it.stop());
  const board = opened.adopt(new Scoreboard(), (it) => it.close());
  const delegator = opened.adopt(
    new Delegator({
      ...jobs,
      users: new UserNames({ issuers: [] }),
      scheduler: dispatcher,
      federations: new FederationCache({
        ...cluster,
        ledgers: new Ledgers(cluster),
        targetFor: ({ member }) => {
          const target = 'clusterId' in member ? targets.get(member.clusterId) : undefined;
          if (!target) throw new Error('there is no such member');
          return target;
        },
        clock: systemClock,
      }),
      scoreboard: board,
      ownStatus: () => ({ snapshot: snapshotFromNodes(jobs.capacity.nodes()), waiting: dispatcher.waiting }),
      self: { clusterId: HERE, store: STORE },
      commit: (order) =>
        commit(order, { ...jobs, staging: { fetch: nothing, upload: nothing }, directory: join(directory, 'way') }),
      reofferAfter: 10_000,
      lease: { lease: 90_000, grace: 60_000 },
      clock: systemClock,
      random: Math.random,
      report,
    }),
    (it) => it.stop(),
  );
  dispatcher.connect({ delegation: delegator });
  await dispatcher.start();
  delegator.start();

  const all = opened.move();
  return {
    async burst(count) {
      const begun = performance.now();
      const ended = await Promise.all(
        Array.from({ length: count }, async (): Promise<JobRecord | undefined> => {
          const arrival = { principal: service.owner, invoker: '', trigger: 'job', byToken: false } as const;
          const key = { id: `${NAME}-${randomUUID()}`, ...arrival };
          return dispatcher.waitUntilEnded(
            await acceptJob(service, key, Buffer.from('{"n":1}'), { ...jobs, scheduler: dispatcher }),
          );
        }),
      );
      const taken = performance.now() - begun;
      const wrong = ended.find((record) => record?.state !== 'succeeded');
      if (wrong || problems.length > 0) {
        throw new Error(`a job ended as ${wrong?.state}: not a benchmark`, { cause: problems[0] ?? wrong?.message });
      }
      return count / (taken / 1_000);
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

function workersOf(cluster: LocalCluster): { catalog: Services; instance: string } {
  const catalog = {
    ...cluster,
    stores: { named: new Set<string>(), endpoint: STORE.endpoint },
    servicesNamespace: 'oscar-svc',
    managerName: 'oscar',
    allowedGroups: [],
    users: new UserNames({ issuers: [] }),
    now: Date.now,
    newUid: randomUUID,
    newToken: newServiceToken,
  };
  return { catalog, instance: randomUUID() };
}

const nothing = () => {
  throw new Error('that was not to be done: not a benchmark');
};

const workerName = (id: string) => `${NAME}-${id}`;
const keyIdOf = (id: string) => `key-of-${id}`;

async function addCoordinator(cluster: LocalCluster, keys: ReadonlyMap<string, Secret>): Promise<Service> {
  const ids = [...keys.keys()];
  const service = aService(
    {
      name: NAME,
      cpu: '0.1',
      memory: '64Mi',
      federation: {
        topology: 'star',
        delegation: 'random',
        delegate_when: 'always',
        self: { weight: 0 },
        members: ids.map((id) => ({ type: 'oscar', cluster_id: id, service_name: workerName(id) })),
      },
    },
    { uid: randomUUID(), federation: { role: 'coordinator', uid: UID, revision: 1, committed: true } },
  );
  await new Ledgers(cluster).begin({
    uid: UID,
    service: NAME,
    serviceUid: service.uid,
    phase: 'active',
    revision: 1,
    begunAt: 0,
    members: ids.map((id) => ({
      clusterId: id,
      service: workerName(id),
      endpoint: `https://${id}.example`,
      verify: true,
      guarded: false,
      kind: 'oscar',
      keyId: keyIdOf(id),
      state: 'made',
      revision: 1,
      since: 0,
    })),
  });
  for (const [id, key] of keys) await cluster.secrets.put('member', keyIdOf(id), { key });
  return create(cluster, service);
}

async function addWorker(cluster: LocalCluster, id: string, key: Secret): Promise<void> {
  const federation: FederationRole = {
    role: 'worker',
    uid: UID,
    revision: 1,
    keyId: keyIdOf(id),
    digest: '',
    origin: { clusterId: HERE, service: NAME, endpoint: 'https://here.example', store: STORE.endpoint },
    adopted: false,
  };
  await cluster.secrets.put('member', keyIdOf(id), { key });
  await create(
    cluster,
    aService({ name: workerName(id), cpu: '0.1', memory: '64Mi' }, { uid: randomUUID(), federation }),
  );
}

async function create({ services }: LocalCluster, service: Service): Promise<Service> {
  const reservation = await services.reserve(service.definition.name, service.uid);
  if (reservation === 'taken') throw new Error('the name is taken');
  return (await services.create(reservation, service)).service;
}
