import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { makeTemporaryDirectory, removeTemporaryDirectory } from '../../../test/support/temporary-directory.ts';
import { LocalCapacity } from '../../adapters/local-runner/index.ts';
import { EmbeddedStore } from '../../adapters/object-stores/embedded/index.ts';
import { type LocalCluster, openLocalCluster } from '../../adapters/sqlite/index.ts';
import type { Ledger } from '../../federation/coordinator/ledger.ts';
import { Ledgers } from '../../federation/index.ts';
import { UserNames } from '../../identity/index.ts';
import {
  acceptJob,
  type DelegationRoles,
  Dispatcher,
  type DispatcherOptions,
  FollowerScheduler,
  type Jobs,
} from '../../jobs/index.ts';
import { PuppetRunner } from '../../jobs/jobs.fixture.ts';
import { changedIn } from '../../lib/changed-in.fixture.ts';
import { HandClock } from '../../lib/clock.fixture.ts';
import { Secret } from '../../lib/secret.ts';
import { type JobKey, type JobRecord, writeManifest } from '../../model/job/index.ts';
import type { FederationRole } from '../../model/service/index.ts';
import { aService } from '../../model/service/service.fixture.ts';
import type { AttemptKey, Report } from '../../peers/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import type { JobStore, ServiceRecord } from '../../ports/index.ts';
import { openObjectStore } from '../../s3-server/index.ts';
import { snapshotFromNodes } from '../scoreboard/local-status.ts';
import { Scoreboard } from '../scoreboard/scoreboard.ts';
import { commit } from './commit.ts';
import { Delegator } from './delegator.ts';
import { FederationCache } from './federation-cache.ts';
import type { OriginDeps } from './origin.ts';
import { digestOf, FollowedScript, QuietTarget, ScriptedTarget } from './scripted-target.fixture.ts';
import { stagingArea } from './staging-area.ts';

export const ALICE = 'alice-0001';

/** The issuers of the origin. Users of the second have the alias `other`. */
export const ISSUER = 'https://issuer.example.org';
export const OTHER_ISSUER = 'https://other.example.org';

export type Scene = Awaited<ReturnType<typeof openScene>>;

export interface SceneOptions {
  /** Millicores of the origin. */
  readonly cpu?: number;
  /** Clusters with one member each. */
  readonly clusters?: readonly string[];
  /** Those of the clusters that run a Go manager. */
  readonly upstream?: readonly string[];
  /** URLs of `endpoint` members. */
  readonly endpoints?: readonly string[];
  readonly federation?: Record<string, unknown>;
  readonly body?: Record<string, unknown>;
  readonly deps?: Partial<OriginDeps>;
  readonly owner?: string;
  /**
   * Whether several managers share the records, as on Kubernetes: a write of a killed manager may then arrive after its
   * successor has read the records, and the successor is notified of it. Otherwise all writes arrive before.
   */
  readonly shared?: boolean;
  /** Called with every changed record. */
  readonly saw?: (record: JobRecord) => void;
}

const OWN_STORE = { endpoint: 'http://127.0.0.1', region: 'us-east-1', verify: true };
const SERVICE = 'demo';
const UID = '5b0c9b0e-6f5c-4d0e-9d8f-2f3a1c7e4b6a';

export const idOf = (cluster: string) => `${cluster}/${SERVICE}-${cluster}`;

/** Not the default name, so that the tests fail if code relies on the default. */
export const STAGING = 'oscar-staging-b';

/**
 * A coordinator with real stores for records, journal and objects. The test controls its members and its clock. It can be
 * restarted: members, stores and runs survive the restart.
 */
export async function openScene(options: SceneOptions = {}) {
  const { clusters = ['b', 'c'], upstream = [], endpoints = [], cpu = 1000, owner = ALICE } = options;
  const clock = new HandClock();
  const directory = makeTemporaryDirectory();
  const cluster = openLocalCluster({ directory, now: clock.now });
  const server = openObjectStore({
    directory: join(directory, 'objects'),
    region: 'us-east-1',
    manager: { accessKey: 'oscar', secret: new Secret('manager-secret') },
    seal: cluster.seal,
    now: clock.now,
  });
  const objects = new EmbeddedStore({ server, endpoint: 'http://127.0.0.1', stagingBucket: STAGING });
  await objects.ensureStaging();
  const runner = new PuppetRunner();
  const targets = new Map<string, ScriptedTarget>([
    ...clusters.map((id) => [idOf(id), new ScriptedTarget(idOf(id))] as const),
    ...upstream.map((id) => [idOf(id), new FollowedScript(idOf(id))] as const),
    ...endpoints.map((url) => [url, new QuietTarget(url, true)] as const),
  ]);
  const problems: unknown[] = [];
  const record = await addService(cluster, clusters, options, owner);
  await objects.createBucket({ name: SERVICE, owner, ownerName: owner, visibility: 'private', allowedUsers: [] });

  const lasting = options.saw ? seenBy(options.saw, cluster.jobs) : cluster.jobs;
  const manager = { current: await begin() };

  async function begin() {
    const { store, die } = options.shared ? { store: lasting, die: () => undefined } : mortal(lasting);
    const capacity = new LocalCapacity({ cpu, memory: 2 ** 40, used: () => ({ cpu: 0, memory: 0 }) });
    const parts: Omit<Jobs, 'scheduler'> = {
      store,
      runner,
      capacity,
      services: cluster.services,
      secrets: cluster.secrets,
      objects,
      ownStore: OWN_STORE,
      storeAccount: 'oscar',
      namedStores: new Map(),
      place: 'here',
      node: 'node-1',
      timeout: 60_000,
      maxEventBytes: 1024,
      now: clock.now,
    };
    const report = (problem: unknown) => void problems.push(problem);
    const { line, lead } = openLine({ ...parts, report }, options.shared ?? false);
    const board = new Scoreboard({ elapsed: clock.now, random: () => 0.5 });
    const deps: OriginDeps = {
      store,
      services: cluster.services,
      users: new UserNames({ issuers: [ISSUER, OTHER_ISSUER], aliases: new Map([[OTHER_ISSUER, 'other']]) }),
      scheduler: line,
      objects,
      federations: new FederationCache({
        services: cluster.services,
        ledgers: new Ledgers(cluster),
        secrets: cluster.secrets,
        targetFor: ({ member }) => {
          const id = 'clusterId' in member ? `${member.clusterId}/${member.service}` : member.url;
          const target = targets.get(id);
          if (!target) throw new Error(`there is no ${id}`);
          return target;
        },
        clock,
      }),
      scoreboard: board,
      ownStatus: () => ({ snapshot: snapshotFromNodes(capacity.nodes()), waiting: line.waiting }),
      self: { clusterId: 'here', store: OWN_STORE },
      commit: (order) => commit(order, scene.commitDeps),
      maxEventBytes: 1024,
      reofferAfter: 10_000,
      lease: { lease: 90_000, grace: 60_000 },
      clock,
      random: () => 0.5,
      report,
      ...options.deps,
    };
    const delegator = new Delegator(deps);
    for (const target of targets.values()) target.origin = originFor(target.member, delegator);
    const stop = await lead({ delegation: delegator });
    delegator.start();
    return { capacity, line, delegator, deps, board, stop, die };
  }

  function originFor(member: string, delegator: Delegator) {
    const from = async () => {
      const [clusterId = '', service = ''] = member.split('/');
      const current = await cluster.services.get(SERVICE);
      const entry = await new Ledgers(cluster).read(UID);
      const found = entry?.ledger.members.find((each) => each.clusterId === clusterId && each.service === service);
      if (!current || !entry || !found) throw new Error('there is no such member');
      // Every request has its own signature, so a new nonce.
      const asking = { time: clock.now(), nonce: randomUUID() };
      return { ledger: entry.ledger, member: found, record: current, asking };
    };
    return {
      permit: async (attempt: AttemptKey) => delegator.permit(attempt, await from()),
      report: async (attempt: AttemptKey, report: Report) => delegator.report(attempt, report, await from()),
      from,
    };
  }

  function leave() {
    manager.current.stop();
    manager.current.delegator.stop();
    manager.current.board.close();
  }

  const scene = {
    commitDeps: {
      secrets: cluster.secrets,
      objects,
      ownStore: OWN_STORE,
      namedStores: new Map(),
      staging: nobody,
      directory,
    },
    clock,
    cluster,
    objects,
    server,
    runner,
    targets,
    problems,
    record,
    manager,
    get store() {
      return cluster.jobs;
    },
    target(id: string): ScriptedTarget {
      const target = targets.get(idOf(id)) ?? targets.get(id);
      if (!target) throw new Error(`there is no ${id}`);
      return target;
    },
    proof: (id: string) => originFor(idOf(id), manager.current.delegator).from(),
    /** Creates a job, as `POST /job` does. */
    async submit(event = '{}', more: Partial<JobRecord> = {}): Promise<JobKey> {
      const { line } = manager.current;
      const current = (await cluster.services.get(SERVICE)) ?? record;
      const arrival = {
        id: `${SERVICE}-${randomUUID()}`,
        principal: owner,
        invoker: '',
        trigger: 'job',
        byToken: false,
      } as const;
      const jobs = { store: cluster.jobs, scheduler: line, now: clock.now, place: 'here' };
      return acceptJob(current.service, { ...arrival, ...more }, Buffer.from(event), jobs);
    },
    /** Fills the origin, so that the next job does not fit. */
    fill(): void {
      manager.current.capacity.hold('filler', { cpu, memory: 0, gpu: 0 });
    },
    empty(): void {
      manager.current.capacity.release('filler');
    },
    async job(key: JobKey): Promise<JobRecord> {
      const found = await cluster.jobs.get(key);
      if (!found) throw new Error('the job is gone');
      return found;
    },
    /** Resolves to the job as soon as the condition holds. */
    until(key: JobKey, isSo: (job: JobRecord) => boolean): Promise<JobRecord> {
      return eventually(async () => {
        const found = await this.job(key);
        if (!isSo(found)) throw new Error(`the job is ${found.state}, ${found.message}`);
        return found;
      });
    },
    /** Advances the clock in steps until the check succeeds. */
    passing<T>(check: () => T | Promise<T>, ms = 500): Promise<T> {
      return eventually(() => {
        clock.pass(ms);
        return check();
      });
    },
    /** Writes files to the staging area as a member does, and resolves to the digest of the manifest. */
    async stage({ job, epoch }: AttemptKey, files: Record<string, string>): Promise<string> {
      const area = stagingArea(job, epoch, objects);
      const listed = [];
      for (const [name, text] of Object.entries(files)) {
        const at = { bucket: area.bucket, key: `${area.files}${name}` };
        await server.putObject(at, Buffer.from(text));
        listed.push({ name, size: text.length, etag: server.statObject(at)?.eTag ?? '' });
      }
      const manifest = writeManifest(listed);
      await server.putObject({ bucket: area.bucket, key: area.manifest }, manifest);
      return digestOf(manifest);
    },
    staged: () => server.listObjects(STAGING, { limit: 1000 }).objects.map(({ key }) => key),
    outputs: () => server.listObjects(SERVICE, { prefix: 'out/', limit: 1000 }).objects.map(({ key }) => key),
    /** Kills the manager and starts another one on the same stores, with the same members. */
    async restart(): Promise<void> {
      leave();
      await manager.current.die();
      await runner.close();
      runner.reopen();
      manager.current = await begin();
    },
    async changeLedger(change: (ledger: Ledger) => Ledger): Promise<void> {
      await new Ledgers(cluster).amend(UID, change);
    },
    async [Symbol.asyncDispose]() {
      leave();
      await runner.close();
      await server.close();
      await cluster.close();
      removeTemporaryDirectory(directory);
    },
  };
  return scene;
}

/** The scheduler of the only manager of a cluster, or of one of several. `lead` resolves to a function that stops it. */
function openLine(options: DispatcherOptions, isShared: boolean) {
  if (!isShared) {
    const dispatcher = new Dispatcher(options);
    const lead = async (roles: DelegationRoles) => {
      dispatcher.connect(roles);
      await dispatcher.start();
      return () => dispatcher.stop();
    };
    return { line: dispatcher, lead };
  }
  const line = new FollowerScheduler({ ...options, callerTimeout: 60_000 });
  const lead = async (roles: DelegationRoles) => {
    const term = new AbortController();
    await line.open();
    await line.lead(roles, term.signal);
    return () => {
      term.abort();
      void line.close();
    };
  };
  return { line, lead };
}

/** The store for a manager that can be killed: writes that it has sent arrive, and it sends no more. */
function mortal(store: JobStore): { readonly store: JobStore; readonly die: () => Promise<unknown> } {
  const sent = new Set<Promise<unknown>>();
  let isDead = false;
  const update: JobStore['update'] = (...change) => {
    if (isDead) return new Promise(() => {});
    const written = store.update(...change);
    const arrived = written.catch(() => undefined).finally(() => sent.delete(arrived));
    sent.add(arrived);
    return written;
  };
  const die = () => {
    isDead = true;
    return Promise.all(sent);
  };
  return { store: changedIn(store, { update }), die };
}

/** The store with an observer of all changes. */
function seenBy(saw: (record: JobRecord) => void, store: JobStore): JobStore {
  const update: JobStore['update'] = async (...change) => {
    const record = await store.update(...change);
    saw(record);
    return record;
  };
  return changedIn(store, { update });
}

/** All files of these tests stay in the origin's store, so nothing is transferred. */
const nobody = {
  fetch: () => Promise.reject(new Error('nothing is fetched')),
  upload: () => Promise.reject(new Error('nothing is uploaded')),
};

async function addService(
  cluster: LocalCluster,
  clusters: readonly string[],
  { federation = {}, body = {}, upstream = [], endpoints = [] }: SceneOptions,
  owner: string,
): Promise<ServiceRecord> {
  const uid = randomUUID();
  const role: FederationRole = { role: 'coordinator', uid: UID, revision: 1, committed: true };
  const members = [
    ...clusters.map((id) => ({ type: 'oscar', cluster_id: id, service_name: `${SERVICE}-${id}` })),
    ...endpoints.map((url) => ({ type: 'endpoint', url })),
  ];
  const document = {
    name: SERVICE,
    cpu: '1',
    memory: '1Mi',
    output: [{ storage_provider: 'minio.default', path: `${SERVICE}/out` }],
    federation: { topology: 'star', members, ...federation },
    ...body,
  };
  const service = aService(document, { uid, owner, ownerName: owner, federation: role });
  await new Ledgers(cluster).begin({
    uid: UID,
    service: SERVICE,
    serviceUid: uid,
    phase: 'active',
    revision: 1,
    begunAt: 0,
    members: clusters.map((id) => ({
      clusterId: id,
      service: `${SERVICE}-${id}`,
      endpoint: `https://${id}.example`,
      verify: true,
      guarded: false,
      kind: upstream.includes(id) ? 'upstream' : 'oscar',
      keyId: `key-${id}`,
      state: 'made',
      revision: 1,
      since: 0,
    })),
  });
  await Promise.all(clusters.map((id) => cluster.secrets.put('member', `key-${id}`, { key: new Secret(`k-${id}`) })));
  const reservation = await cluster.services.reserve(SERVICE, uid);
  if (reservation === 'taken') throw new Error('the name is taken');
  return cluster.services.create(reservation, service);
}
