import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { TestContext } from 'node:test';
import { makeTemporaryDirectory, removeTemporaryDirectory } from '../../../test/support/temporary-directory.ts';
import { type LocalCluster, openLocalCluster } from '../../adapters/sqlite/index.ts';
import { Secret } from '../../lib/secret.ts';
import type { JobKey, JobRecord } from '../../model/job/index.ts';
import { readDefinition, type Service } from '../../model/service/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import type { JobStore, ObjectStore, ServiceRecord } from '../../ports/index.ts';
import { submitJob } from '../intake/submit.ts';
import { ALICE, FewBuckets, OneNode, PuppetRunner } from '../jobs.fixture.ts';
import type { Delegation, DelegationRoles, HostedJobs, Jobs } from '../jobs.ts';
import { FollowerScheduler } from './follower-scheduler.ts';

/** One of several managers. The test decides which of them leads. */
export interface Replica extends Jobs {
  readonly scheduler: FollowerScheduler;
  readonly capacity: OneNode;
  readonly problems: unknown[];
  /** Makes it lead, also if another manager believes to lead. */
  lead(roles?: DelegationRoles): Promise<void>;
  /** Ends its term. */
  resign(): void;
  /** Like kill -9: from now on it writes and reads nothing. */
  die(): Promise<void>;
}

export interface ReplicaOptions {
  readonly store?: JobStore;
  readonly services?: Jobs['services'];
  readonly cpu?: number;
  readonly now?: () => number;
}

export interface Replicas extends AsyncDisposable {
  readonly cluster: LocalCluster;
  readonly runner: PuppetRunner;
  readonly buckets: FewBuckets;
  readonly store: JobStore;
  open(more?: ReplicaOptions): Promise<Replica>;
  service(name: string, more?: Record<string, unknown>): Promise<ServiceRecord>;
  until(key: JobKey, state: JobRecord['state']): Promise<JobRecord>;
}

/** Timeout of callers of `/run` in these tests. */
export const CALLER_WAITS = 60_000;

/** Managers of one cluster: they share the job store and the runner. */
export async function openReplicas(): Promise<Replicas> {
  const directory = makeTemporaryDirectory();
  const cluster = openLocalCluster({ directory });
  const runner = new PuppetRunner();
  const buckets = new FewBuckets();
  const alive: Replica[] = [];
  const store = cluster.jobs;

  return {
    cluster,
    runner,
    buckets,
    store,
    async open(more = {}) {
      const replica = await openReplica(cluster, runner, buckets, more);
      alive.push(replica);
      return replica;
    },
    async service(name, more = {}) {
      const { definition } = readDefinition({ name, image: 'busybox', script: 'true', cpu: '1', ...more });
      const uid = randomUUID();
      const token = new Secret('f'.repeat(64));
      const made: Service = { uid, definition, owner: ALICE, ownerName: ALICE, namespace: 'oscar-svc', token };
      const reservation = await cluster.services.reserve(name, uid);
      if (reservation === 'taken') throw new Error(`${name} is taken`);
      return cluster.services.create(reservation, made);
    },
    async until(key, state) {
      for (;;) {
        const { promise, resolve } = Promise.withResolvers<void>();
        const ends = store.onChange(resolve);
        const record = await store.get(key);
        if (record?.state !== state) await promise;
        ends();
        if (record?.state === state) return record;
      }
    },
    async [Symbol.asyncDispose]() {
      for (const replica of alive) await replica.die();
      await runner.close();
      await cluster.close();
      removeTemporaryDirectory(directory);
    },
  };
}

async function openReplica(
  cluster: LocalCluster,
  runner: PuppetRunner,
  buckets: FewBuckets,
  more: ReplicaOptions,
): Promise<Replica> {
  const problems: unknown[] = [];
  const parts = {
    store: more.store ?? cluster.jobs,
    runner,
    capacity: new OneNode(more.cpu ?? 1000),
    services: more.services ?? cluster.services,
    secrets: cluster.secrets,
    objects: buckets as unknown as ObjectStore,
    ownStore: { endpoint: 'http://store.example', region: 'us-east-1', verify: true },
    storeAccount: 'manager',
    namedStores: new Map(),
    place: 'here',
    node: 'node-1',
    timeout: 60_000,
    maxEventBytes: 1024,
    now: more.now ?? Date.now,
    report: (problem: unknown) => problems.push(problem),
  };
  const dispatcher = new FollowerScheduler({ ...parts, callerTimeout: CALLER_WAITS });
  await dispatcher.open();
  let term = new AbortController();
  return {
    ...parts,
    scheduler: dispatcher,
    problems,
    async lead(roles = {}) {
      term = new AbortController();
      await dispatcher.lead(roles, term.signal);
    },
    resign: () => term.abort(),
    async die() {
      term.abort();
      await dispatcher.close();
    },
  };
}

export const USER = { kind: 'user', uid: ALICE, name: ALICE, groups: [], operator: false } as const;
export const submit = (replica: Replica, service: ServiceRecord, trigger: 'job' | 'run' = 'job') =>
  submitJob(USER, service, Buffer.from('{}'), trigger, replica);

/** Opens managers that end with the test. */
export async function scene(t: TestContext): Promise<Replicas> {
  const replicas = await openReplicas();
  t.after(() => replicas[Symbol.asyncDispose]());
  return replicas;
}

/** Waits until the script was started so often. */
export const started = ({ runner }: Replicas, { id }: JobKey, starts = 1) =>
  eventually(() => assert.equal(runner.attempts.get(id)?.starts, starts));

/** Both sides of delegation; records all calls. */
export class Notes implements Delegation, HostedJobs {
  readonly roles = { delegation: this, hostedJobs: this };
  readonly told: string[] = [];
  #note(what: string, { id }: JobKey): void {
    this.told.push(`${what} ${id.slice(0, 4)}`);
  }
  consider(key: JobKey): void {
    this.#note('consider', key);
  }
  resume(record: JobRecord): void {
    this.#note('resume', record);
  }
  onCancelled(record: JobRecord): void {
    this.#note('cancelled', record);
  }
  reportCancelled(record: JobRecord): void {
    this.#note('report cancelled', record);
  }
  onChanged(record: JobRecord): void {
    this.#note(`changed to ${record.state}`, record);
  }
  onRemoved(key: JobKey): void {
    this.#note('removed', key);
  }
  reportQueued(record: JobRecord): void {
    this.#note('report queued', record);
  }
  async prepare(): Promise<never> {
    throw new Error('nothing is run for others here');
  }
  reportRunning(): void {}
  async reportResult(record: JobRecord) {
    this.#note('report result', record);
    return { state: 'succeeded', reason: 'HandedIn', message: 'its origin has it' } as const;
  }
}
