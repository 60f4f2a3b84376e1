import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import { makeTemporaryDirectory, removeTemporaryDirectory } from '../../test/support/temporary-directory.ts';
import { type LocalCluster, openLocalCluster } from '../adapters/sqlite/index.ts';
import { Secret } from '../lib/secret.ts';
import type { Attempt, Demand, Ended, JobKey, JobRecord } from '../model/job/index.ts';
import { readDefinition, type Service } from '../model/service/index.ts';
import {
  type Capacity,
  type KeyScope,
  type NodeCapacity,
  type ObjectStore,
  type Observation,
  type Obstacle,
  type Runner,
  type ServiceRecord,
  type StopReason,
  StoreError,
} from '../ports/index.ts';
import type { Jobs } from './jobs.ts';
import { Dispatcher } from './scheduler/dispatcher.ts';

/** A runner whose attempts the test controls. Attempts outlive a dispatcher, as real ones do. */
export class PuppetRunner implements Runner {
  readonly attempts = new Map<string, { attempt: Attempt; seen: Observation; starts: number; stopped?: StopReason }>();
  #changed = Promise.withResolvers<void>();
  #closed = false;
  /** The error with which the next starts fail. */
  refuse: Error | undefined;

  async start(attempt: Attempt): Promise<void> {
    if (this.refuse) throw this.refuse;
    const known = this.attempts.get(attempt.name);
    const seen = known?.seen ?? { phase: 'running', startedAt: Date.now() };
    this.attempts.set(attempt.name, { ...known, attempt, seen, starts: (known?.starts ?? 0) + 1 });
    this.#tell();
  }

  async *observe(name: string): AsyncGenerator<Observation> {
    while (!this.#closed) {
      const known = this.attempts.get(name);
      if (!known) throw new StoreError('absent', `there is no attempt ${name}`);
      const { seen } = known;
      const changed = this.#changed.promise;
      yield seen;
      if (seen.phase === 'ended') return;
      await changed;
    }
  }

  async stop(name: string, reason: StopReason): Promise<void> {
    const known = this.attempts.get(name);
    if (!known || known.seen.phase === 'ended') return;
    known.stopped = reason;
    this.end(name, { outcome: 'stopped', reason: 'Stopped', message: 'it was stopped' });
  }

  async *logs(name: string): AsyncGenerator<Uint8Array> {
    if (!this.attempts.has(name)) throw new StoreError('absent', `there is no attempt ${name}`);
    yield Buffer.from(`log of ${name}\n`);
  }

  async answer(name: string): Promise<Readable> {
    return Readable.from([Buffer.from(`answer of ${name}`)]);
  }

  async list(): Promise<string[]> {
    return [...this.attempts.keys()];
  }

  async forget(name: string): Promise<void> {
    this.attempts.delete(name);
  }

  usage() {
    return { cpu: 0, memory: 0 };
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#tell();
  }

  /** Sets what observers of an attempt see next. */
  see(name: string, seen: Observation): void {
    const known = this.attempts.get(name);
    if (!known) throw new Error(`${name} was not started`);
    known.seen = seen;
    this.#tell();
  }

  end(name: string, how: Partial<Ended> = {}): void {
    const startedAt = Date.now();
    const usual = { outcome: 'succeeded', reason: 'Completed', message: 'done', exitCode: 0 } as const;
    this.see(name, { phase: 'ended', startedAt, finishedAt: startedAt + 5, ...usual, ...how });
  }

  /** Allows the next dispatcher to observe attempts. */
  reopen(): void {
    this.#closed = false;
  }

  #tell(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }
}

/** A cluster of one node with this many millicores. */
export class OneNode implements Capacity {
  #cpu: number;
  readonly #taken = new Map<string, number>();
  inTheWay: Obstacle = 'ours';
  readonly #listeners = new Set<() => void>();

  constructor(cpu: number) {
    this.#cpu = cpu;
  }

  /** Replaces the node by one with this many millicores. */
  becomes(cpu: number): void {
    this.#cpu = cpu;
    for (const tell of this.#listeners) tell();
  }

  get taken(): number {
    return [...this.#taken.values()].reduce((sum, each) => sum + each, 0);
  }

  reserve(name: string, { cpu }: Demand): boolean {
    if (this.#taken.has(name)) return true;
    if (this.taken + cpu > this.#cpu) return false;
    this.#taken.set(name, cpu);
    return true;
  }

  hold(name: string, { cpu }: Demand): void {
    this.#taken.set(name, cpu);
  }

  release(name: string): void {
    if (this.#taken.delete(name)) for (const tell of this.#listeners) tell();
  }

  refusal({ cpu }: Demand): string | undefined {
    return cpu > this.#cpu ? `it needs ${cpu} and there are ${this.#cpu}` : undefined;
  }

  obstacle(): Obstacle {
    return this.inTheWay;
  }

  nodes(): readonly NodeCapacity[] {
    return [];
  }

  onFreed(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

/** An object store for tests that use only its buckets and keys. */
export class FewBuckets implements Pick<ObjectStore, 'bucket' | 'issue' | 'revoke'> {
  readonly buckets = new Map<string, Awaited<ReturnType<ObjectStore['bucket']>>>();
  readonly issued = new Map<string, KeyScope & { onBehalfOf: string }>();

  add(name: string, owner: string, more: Partial<NonNullable<Awaited<ReturnType<ObjectStore['bucket']>>>> = {}): void {
    const usual = {
      ownerName: owner,
      visibility: 'private',
      allowedUsers: [],
      usage: { bytes: 0, objects: 0 },
    } as const;
    this.buckets.set(name, { name, owner, ...usual, ...more });
  }

  async bucket(name: string) {
    return this.buckets.get(name);
  }

  async issue(scope: KeyScope, ttl: number, onBehalfOf: string) {
    const id = randomUUID();
    this.issued.set(id, { ...scope, onBehalfOf });
    const key = new Secret(id);
    const expiresAt = new Date(Date.now() + ttl * 1000);
    return { id, accessKey: key, secretKey: key, sessionToken: key, expiresAt, revocable: true };
  }

  async revoke(id: string): Promise<void> {
    this.issued.delete(id);
  }
}

export interface TestJobs extends Jobs, AsyncDisposable {
  readonly runner: PuppetRunner;
  readonly capacity: OneNode;
  readonly scheduler: Dispatcher;
  readonly buckets: FewBuckets;
  readonly cluster: LocalCluster;
  readonly problems: unknown[];
  /** Creates a service, as the service catalog does. */
  service(name: string, more?: Record<string, unknown>, owner?: string): Promise<ServiceRecord>;
  /** Resolves to the job when it is in this state. */
  until(key: JobKey, state: JobRecord['state']): Promise<JobRecord>;
  /** Starts another dispatcher on the same stores and the same runner, as after a crash. */
  restarted(): Promise<TestJobs>;
}

export const ALICE = 'alice-0001';
export const BOB = 'bob-000002';

/** The jobs of a cluster with a real job store; the test plays the scripts. */
export async function openJobs(cpu = 1000, runner = new PuppetRunner()): Promise<TestJobs> {
  const directory = makeTemporaryDirectory();
  const cluster = openLocalCluster({ directory });
  const close = async () => {
    await cluster.close();
    removeTemporaryDirectory(directory);
  };
  return assemble(cluster, runner, new FewBuckets(), cpu, close);
}

async function assemble(
  cluster: LocalCluster,
  runner: PuppetRunner,
  buckets: FewBuckets,
  cpu: number,
  close: () => Promise<void>,
): Promise<TestJobs> {
  const problems: unknown[] = [];
  const parts = {
    store: cluster.jobs,
    runner,
    capacity: new OneNode(cpu),
    services: cluster.services,
    secrets: cluster.secrets,
    objects: buckets as unknown as ObjectStore,
    ownStore: { endpoint: 'http://store.example', region: 'us-east-1', verify: true },
    storeAccount: 'manager',
    namedStores: new Map(),
    place: 'here',
    node: 'node-1',
    timeout: 60_000,
    maxEventBytes: 1024,
    now: Date.now,
    report: (problem: unknown) => problems.push(problem),
  };
  const dispatcher = new Dispatcher(parts);
  await dispatcher.start();
  const leave = async () => {
    dispatcher.stop();
    await runner.close();
  };
  const jobs: TestJobs = {
    ...parts,
    scheduler: dispatcher,
    buckets,
    cluster,
    problems,
    service: (name, more, owner) => addService(cluster, name, more, owner),
    until: (key, state) => untilState(jobs, key, state),
    async restarted() {
      await leave();
      runner.reopen();
      return assemble(cluster, runner, buckets, cpu, close);
    },
    async [Symbol.asyncDispose]() {
      await leave();
      await close();
    },
  };
  return jobs;
}

async function addService(
  cluster: LocalCluster,
  name: string,
  more: Record<string, unknown> = {},
  owner = ALICE,
): Promise<ServiceRecord> {
  const { definition } = readDefinition({ name, image: 'busybox', script: 'true', cpu: '1', ...more });
  const uid = randomUUID();
  const token = new Secret('f'.repeat(64));
  const service: Service = { uid, definition, owner, ownerName: owner, namespace: 'oscar-svc', token };
  const reservation = await cluster.services.reserve(name, uid);
  if (reservation === 'taken') throw new Error(`${name} is taken`);
  return cluster.services.create(reservation, service);
}

async function untilState({ store }: Jobs, key: JobKey, state: JobRecord['state']): Promise<JobRecord> {
  for (;;) {
    const { promise, resolve } = Promise.withResolvers<void>();
    const ends = store.onChange(resolve);
    const record = await store.get(key);
    if (record?.state === state) {
      ends();
      return record;
    }
    await promise;
    ends();
  }
}
