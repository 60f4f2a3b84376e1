import { randomUUID } from 'node:crypto';
import type { TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { type LocalCluster, openLocalCluster } from '../../adapters/sqlite/index.ts';
import type { Config } from '../../config/index.ts';
import { Dispatcher } from '../../jobs/index.ts';
import { ALICE, FewBuckets, OneNode, PuppetRunner } from '../../jobs/jobs.fixture.ts';
import { Secret } from '../../lib/secret.ts';
import type { JobKey, JobRecord } from '../../model/job/index.ts';
import { readDefinition } from '../../model/service/index.ts';
import {
  type AttemptKey,
  DelegationError,
  type ForwardedJob,
  type MemberKey,
  type Offer,
  type Origin,
  type OriginStore,
  PeerError,
  type Permit,
  type Report,
} from '../../peers/index.ts';
import type { JobStore, ObjectStore, Runner, ServiceRecord } from '../../ports/index.ts';
import type { ObjectStoreServer } from '../../s3-server/index.ts';
import { createObjectProbe } from '../../staging/index.ts';
import { embeddedStore, scratch } from '../../staging/transfers/embedded-store.fixture.ts';
import type { AuthenticatedCoordinator } from '../server.ts';
import type { TakenOffer, WorkerService } from './accept.ts';
import { DelegationTarget } from './delegation-target.ts';
import { mortal } from './mortal.fixture.ts';
import type { TargetConfig } from './target.ts';

export type Context = Pick<TestContext, 'after'>;

export const ORIGIN_ID = 'oscar-cluster';
export const MEMBER = 'oscar-cluster-b/calf';
export const KEY = new Secret('member-key');

/** An origin whose answers the test chooses, with a real store. */
export class ScriptedOrigin implements Origin {
  readonly permits: AttemptKey[] = [];
  readonly reports: { attempt: AttemptKey; report: Report }[] = [];
  /** The room that each report told. */
  readonly rooms: Report['room'][] = [];
  readonly opened: ForwardedJob[] = [];
  /** No request is answered. */
  silent = false;
  /** The answer to every request, if set. */
  over: Error | undefined;
  lease = 90_000;
  /** The input file of a job, if it has one. */
  input: { bucket: string; key: string } | undefined;
  /** A permit is issued only after this resolves. */
  gate: Promise<void> = Promise.resolve();
  store: OriginStore;
  readonly objects: ObjectStoreServer;

  constructor(store: OriginStore, objects: ObjectStoreServer) {
    this.store = store;
    this.objects = objects;
  }

  get fences(): boolean {
    return this.over !== undefined;
  }

  set fences(fences: boolean) {
    this.over = fences ? new DelegationError('fenced', 'another attempt is current') : undefined;
  }

  async permit(attempt: AttemptKey, as: MemberKey): Promise<Permit> {
    this.permits.push(attempt);
    await this.gate;
    this.#answer(as);
    const { job, epoch } = attempt;
    const prefix = `allowed/${job.service}/${job.id}/${epoch}/`;
    return {
      store: this.store,
      ...(this.input && { input: this.input }),
      staging: { bucket: 'outputs', prefix: `${prefix}files/`, manifest: `${prefix}manifest.json` },
      lease: this.lease,
    };
  }

  async report(attempt: AttemptKey, report: Report, as: MemberKey): Promise<void> {
    this.#answer(as);
    const { room, ...said } = report;
    this.reports.push({ attempt, report: said });
    this.rooms.push(room);
  }

  async open(job: ForwardedJob, as: MemberKey): Promise<void> {
    this.#answer(as);
    this.opened.push(job);
  }

  states(): string[] {
    return this.reports.map(({ report }) => report.state);
  }

  #answer(as: MemberKey): void {
    if (this.silent) throw new PeerError('unreachable', 'cluster "oscar-cluster" does not answer');
    if (this.over) throw this.over;
    if (as.member !== MEMBER || !as.key.equals(KEY)) throw new PeerError('refused', 'unknown member');
  }
}

export interface TargetOptions<R extends Runner = PuppetRunner> {
  readonly cpu?: number;
  readonly runner?: R;
  /** Merged into the worker's definition. */
  readonly definition?: Record<string, unknown>;
  readonly parts?: Partial<TargetConfig>;
  /** Wraps the job store. */
  readonly store?: (store: JobStore) => JobStore;
  /** The factor by which waits are shorter. */
  readonly faster?: number;
}

/** A target with real records and a real store of the origin. The test controls the scripts and the origin's answers. */
export class TestTarget<R extends Runner = PuppetRunner> {
  readonly origin: ScriptedOrigin;
  readonly cluster: LocalCluster;
  readonly runner: R;
  readonly capacity: OneNode;
  readonly dispatcher: Dispatcher;
  readonly taken: DelegationTarget;
  readonly worker: ServiceRecord;
  readonly problems: unknown[] = [];
  /** By how many milliseconds the clock of this cluster is ahead. */
  ahead = 0;
  readonly #options: TargetOptions<R>;
  readonly #probe: Pick<TargetConfig, 'unreadable' | 'unreachable'>;
  readonly #death = new AbortController();
  readonly #writes = new Set<unknown>();

  constructor(
    cluster: LocalCluster,
    origin: ScriptedOrigin,
    worker: ServiceRecord,
    runner: R,
    options: TargetOptions<R>,
    probe: Pick<TargetConfig, 'unreadable' | 'unreachable'>,
  ) {
    this.cluster = cluster;
    this.origin = origin;
    this.worker = worker;
    this.runner = runner;
    this.#options = options;
    this.#probe = probe;
    this.capacity = new OneNode(options.cpu ?? 1000);
    const { signal: death } = this.#death;
    const jobs = {
      store: mortal(options.store?.(cluster.jobs) ?? cluster.jobs, death, this.#writes),
      runner: mortal<Runner>(runner, death),
      capacity: this.capacity,
      services: cluster.services,
      secrets: cluster.secrets,
      objects: new FewBuckets() as unknown as ObjectStore,
      ownStore: { endpoint: 'http://own.example', region: 'us-east-1', verify: true },
      storeAccount: 'manager',
      namedStores: new Map(),
      place: 'oscar-cluster-b',
      node: 'node-b',
      timeout: 60_000,
      maxEventBytes: 1024,
      now: () => Date.now() + this.ahead,
      report: (problem: unknown) => this.problems.push(problem),
    };
    this.dispatcher = new Dispatcher(jobs);
    const registered = new Map([[ORIGIN_ID, { store: origin.store.endpoint }]]) as unknown as Config['clusters'];
    this.taken = new DelegationTarget({
      ...jobs,
      dispatcher: this.dispatcher,
      coordinatorOf: async () => ({ origin: mortal<Origin>(origin, death), key: KEY }),
      stores: { registered, isOwn: () => false, own: [] },
      ownStatus: () => {
        const cpu = (options.cpu ?? 1000) - this.capacity.taken;
        return { nodes: [{ cpu, memory: 2 ** 40, gpu: 0 }], freeCpu: cpu, nodeCount: 1, age: 0 };
      },
      unreadable: probe.unreadable,
      unreachable: probe.unreachable,
      wait: (ms, signal) =>
        pause(ms / (options.faster ?? 1000), undefined, { signal, ref: false }).catch(() => undefined),
      ...options.parts,
    });
    this.dispatcher.connect({ hostedJobs: this.taken });
  }

  get service(): WorkerService {
    return this.worker.service as WorkerService;
  }

  get from(): AuthenticatedCoordinator {
    return { uid: this.service.federation.uid, member: MEMBER, worker: this.worker };
  }

  async begin(): Promise<this> {
    await this.dispatcher.start();
    return this;
  }

  /** Like kill -9. */
  end(): void {
    this.#death.abort();
    this.stop();
  }

  /** A regular stop. */
  stop(): void {
    this.dispatcher.stop();
    this.taken.close();
  }

  offer(more: Partial<Offer> = {}): Promise<TakenOffer> {
    return this.taken.offer(offered(more), this.from);
  }

  key(attempt: string): JobKey {
    return { service: 'calf', id: attempt };
  }

  get(attempt: string): Promise<JobRecord | undefined> {
    return this.cluster.jobs.get(this.key(attempt));
  }

  /** Resolves to the job as soon as it is in that state. */
  async until(attempt: string, state: JobRecord['state']): Promise<JobRecord> {
    const { jobs } = this.cluster;
    for (;;) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const ends = jobs.onChange(resolve);
      const record = await jobs.get(this.key(attempt));
      if (record?.state === state) {
        ends();
        return record;
      }
      await promise;
      ends();
    }
  }

  /** Kills this manager and starts the next one on the same records. Scripts continue meanwhile. */
  async restarted(runner: R = this.runner): Promise<TestTarget<R>> {
    this.end();
    // A killed manager writes nothing later.
    await Promise.allSettled(this.#writes);
    if (this.runner instanceof PuppetRunner) {
      await this.runner.close();
      this.runner.reopen();
    }
    const next = new TestTarget(this.cluster, this.origin, this.worker, runner, this.#options, this.#probe);
    return next.begin();
  }
}

export const offered = (more: Partial<Offer> = {}): Offer => ({
  job: { service: 'cow', id: 'cow-1' },
  epoch: 1,
  service: 'calf',
  from: ORIGIN_ID,
  event: Buffer.from('moo'),
  trigger: 'job',
  pinned: false,
  ...more,
});

export async function openTarget<R extends Runner = PuppetRunner>(
  t: Context,
  options: TargetOptions<R> = {},
): Promise<TestTarget<R>> {
  const origin = await openOrigin(t);
  const cluster = openLocalCluster({ directory: scratch(t) });
  const probe = createObjectProbe({ networks: [] });
  const runner = options.runner ?? (new PuppetRunner() as unknown as R);
  const worker = await addWorker(cluster, origin, options.definition);
  const target = await new TestTarget(cluster, origin, worker, runner, options, probe).begin();
  t.after(async () => {
    target.end();
    probe.close();
    await runner.close();
    await cluster.close();
  });
  return target;
}

/** An origin whose store has the object `inputs/in/photo.jpg`. */
async function openOrigin(t: Context): Promise<ScriptedOrigin> {
  const { store, access } = await embeddedStore(t);
  await store.putObject({ bucket: 'inputs', key: 'in/photo.jpg' }, Buffer.from('a photo'));
  const { endpoint = '', region, verify, accessKey, secretKey, sessionToken } = access;
  const keys = { accessKey, secretKey, ...(sessionToken && { sessionToken }) };
  const expiresAt = Date.now() + 600_000;
  return new ScriptedOrigin({ endpoint, region, verify, ...keys, expiresAt }, store);
}

async function addWorker(cluster: LocalCluster, origin: ScriptedOrigin, more: Record<string, unknown> = {}) {
  const usual = { name: 'calf', image: 'busybox', script: 'true', cpu: '1', cluster_id: 'oscar-cluster-b' };
  const { definition } = readDefinition({ ...usual, ...more });
  const uid = randomUUID();
  const reservation = await cluster.services.reserve('calf', uid);
  if (reservation === 'taken') throw new Error('the name is taken');
  return cluster.services.create(reservation, {
    uid,
    definition,
    owner: ALICE,
    ownerName: ALICE,
    namespace: 'oscar-svc',
    token: new Secret('f'.repeat(64)),
    federation: {
      role: 'worker',
      uid: 'federation-1',
      revision: 1,
      keyId: 'key-1',
      digest: 'd',
      origin: {
        clusterId: ORIGIN_ID,
        service: 'cow',
        endpoint: 'https://origin.example/',
        store: origin.store.endpoint,
      },
      adopted: false,
    },
  });
}
