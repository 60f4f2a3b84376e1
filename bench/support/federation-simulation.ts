import { LocalCapacity } from '../../src/adapters/local-runner/index.ts';
import { delegationBackoff } from '../../src/delegation/backoff.ts';
import { Delegator, Scoreboard, snapshotFromNodes } from '../../src/delegation/index.ts';
import type { DelegatingFederation, DelegationMember } from '../../src/delegation/origin/federation-cache.ts';
import { MovingAverage } from '../../src/delegation/scoreboard/scoreboard.ts';
import { reserveRoom } from '../../src/delegation/target/accept.ts';
import { attemptOverReason } from '../../src/delegation/target/origin-contact.ts';
import { TargetRoom } from '../../src/delegation/target/target.ts';
import { changeJob, jobKeyText, type PlacementMode, placementModeFor } from '../../src/jobs/index.ts';
import { JobQueue } from '../../src/jobs/scheduler/queue.ts';
import { OscarError } from '../../src/lib/oscar-error.ts';
import { Secret } from '../../src/lib/secret.ts';
import type { Version } from '../../src/lib/version.ts';
import {
  accepted,
  advance,
  type Demand,
  isFinal,
  type JobKey,
  type JobProgress,
  type JobRecord,
} from '../../src/model/job/index.ts';
import type { PolicyName, Service } from '../../src/model/service/index.ts';
import { aService } from '../../src/model/service/service.fixture.ts';
import { type Offer, type OfferAnswer, PeerError, type Report, type Target } from '../../src/peers/index.ts';
import { type JobStore, StoreError } from '../../src/ports/index.ts';
import { SimulatedClock, SimulatedNetwork, seededRandom } from './simulated-world.ts';
import { percentile } from './statistics.ts';

/**
 * A federation of simulated clusters. The origins run the real delegator, with its policies, scoreboard and leases; origins and
 * targets have the real queue, capacity and room. Simulated are the clock, the network, the stores and the scripts.
 */
export interface SimulationOptions {
  readonly clusters: number;
  readonly jobs: number;
  readonly policy: PolicyName;
  readonly mode: 'saturated' | 'always';
  readonly seed: number;
  /** Clusters that coordinate a federation of their own; all others are members of each. 1 by default. */
  readonly origins?: number;
  /** Of the scripts, on a cluster of speed 1. */
  readonly meanSeconds: number;
  /** Durations have a heavy tail, and clusters differ in size and speed. Otherwise all are equal. */
  readonly isMixed?: boolean;
  /** Work arrives at this multiple of the speed at which all clusters together can do it. All at once by default. */
  readonly load?: number;
  /** Each direction of a link, on average. */
  readonly linkMs?: number;
  /** The share of messages that are lost. */
  readonly loss?: number;
  /** How often a member dies with all its jobs, on average, in seconds. It returns after {@link AWAY_MS}. Never by default. */
  readonly diesEverySeconds?: number;
  /** Members tell their room only when they are asked, as earlier versions and Go managers do. */
  readonly isStale?: boolean;
}

export interface SimulationResult {
  /** The share of slot time in which a script of a job ran that counted, from the first job to the start of the last, in %. */
  readonly utilisation: number;
  /** The same until 95 % of the jobs have started: the last ones may be repeats of jobs whose members died. */
  readonly bulkUtilisation: number;
  readonly meanWaitSeconds: number;
  readonly p99WaitSeconds: number;
  readonly requestsPerJob: number;
  readonly decisionMicroseconds: number;
  /** Jobs that ended, and jobs that ended more than once. */
  readonly ended: number;
  readonly endedTwice: number;
  /** Jobs that ended on a member. */
  readonly delegated: number;
  readonly leasesExpired: number;
  /** Of the simulated clock. */
  readonly seconds: number;
}

const SLOTS = 4;
const DEMAND: Demand = { cpu: 1000, memory: 2 ** 20, gpu: 0 };
const LEASE = { lease: 90_000, grace: 60_000 };

/** Deadlines of requests, as between real managers. */
const OFFER_MS = 10_000;
const PERMIT_MS = 5_000;
const REPORT_MS = 10_000;
const STATUS_MS = 3_000;

/** How long a dead member stays away. */
const AWAY_MS = 60_000;

export async function simulate(options: SimulationOptions): Promise<SimulationResult> {
  const world = openWorld(options);
  const { clock, tally, clusters } = world;
  const origins = clusters.slice(0, options.origins ?? 1).map((cluster) => new SimulatedOrigin(cluster, world));
  for (const origin of origins) origin.start();
  submitAll(origins, world);
  keepDying(clusters.slice(origins.length), world);
  await clock.runUntil(() => tally.ended === options.jobs);
  for (const origin of origins) origin.stop();
  return tally.result(world);
}

interface World {
  readonly options: SimulationOptions;
  readonly clock: SimulatedClock;
  readonly network: SimulatedNetwork;
  readonly random: () => number;
  readonly clusters: readonly SimulatedCluster[];
  /** Seconds of each job on a cluster of speed 1. */
  readonly durations: Float64Array;
  readonly tally: Tally;
}

function openWorld(options: SimulationOptions): World {
  const { seed, linkMs = 2, loss = 0, isMixed = false, jobs, meanSeconds } = options;
  const clock = new SimulatedClock();
  const random = seededRandom(seed);
  const network = new SimulatedNetwork(clock, random, { linkMs, loss });
  const world = { options, clock, network, random, tally: new Tally(jobs) };
  const durations = Float64Array.from({ length: jobs }, () =>
    isMixed ? paretoSeconds(meanSeconds, random()) : meanSeconds,
  );
  const clusters = Array.from({ length: options.clusters }, (_, index) => {
    const slots = isMixed ? 2 + Math.floor(random() * 2 * (SLOTS - 1)) : SLOTS;
    const speed = isMixed ? 0.5 + 1.5 * random() : 1;
    return new SimulatedCluster(`cluster-${index}`, slots, speed, { ...world, durations });
  });
  return { ...world, durations, clusters };
}

/** A bounded Pareto distribution: most jobs are short, and some are up to a hundred times the mean. */
function paretoSeconds(mean: number, point: number): number {
  const shape = 1.5;
  const scale = (mean * (shape - 1)) / shape;
  return Math.min(scale / (1 - point) ** (1 / shape), 100 * mean);
}

function submitAll(origins: readonly SimulatedOrigin[], { options, clock, clusters, random }: World): void {
  const { jobs, load = Infinity, meanSeconds } = options;
  const perSecond = clusters.reduce((sum, { slots, speed }) => sum + slots * speed, 0) / meanSeconds;
  const submit = (index: number) => {
    origins[index % origins.length]?.submit(index);
    if (index + 1 === jobs) return;
    const pause = load === Infinity ? 0 : (-Math.log(1 - random()) * 1000) / (load * perSecond);
    clock.after(pause, () => submit(index + 1));
  };
  clock.after(0, () => submit(0));
}

function keepDying(members: readonly SimulatedCluster[], { options, clock, random }: World): void {
  const { diesEverySeconds } = options;
  if (diesEverySeconds === undefined) return;
  for (const member of members) {
    const live = () =>
      clock.after(-Math.log(1 - random()) * diesEverySeconds * 1000, () => {
        member.die();
        clock.after(AWAY_MS, () => {
          member.comeBack();
          live();
        });
      });
    live();
  }
}

type ClusterWorld = Omit<World, 'clusters'>;

/** An attempt of a job of another cluster. */
interface HostedAttempt {
  readonly key: JobKey;
  readonly job: number;
  readonly origin: SimulatedOrigin;
  readonly epoch: number;
  startedAt?: number;
  isOver: boolean;
}

/** A cluster with its manager: as the target of jobs, and with a queue for its own. */
class SimulatedCluster {
  readonly id: string;
  readonly slots: number;
  readonly speed: number;
  readonly durations = new MovingAverage();
  isUp = true;
  capacity: LocalCapacity;
  queue: JobQueue;
  room: TargetRoom;
  running = 0;
  readonly #world: ClusterWorld;
  readonly #starts = new Map<string, () => void>();
  #attempts = new Map<string, HostedAttempt>();
  #accepting = new Map<string, Promise<OfferAnswer>>();

  constructor(id: string, slots: number, speed: number, world: ClusterWorld) {
    this.id = id;
    this.slots = slots;
    this.speed = speed;
    this.#world = world;
    this.capacity = this.#openCapacity();
    this.queue = this.#openQueue();
    this.room = this.#openRoom();
    world.tally.slotsChanged(world.clock.now(), slots);
  }

  get waiting(): number {
    return this.queue.size;
  }

  /** The manager and all its jobs are gone. */
  die(): void {
    this.isUp = false;
    for (const attempt of this.#attempts.values()) attempt.isOver = true;
    this.#world.tally.slotsChanged(this.#world.clock.now(), -this.slots);
  }

  /** The manager starts anew, and knows nothing of earlier jobs. */
  comeBack(): void {
    this.isUp = true;
    this.running = 0;
    this.#starts.clear();
    this.#attempts = new Map();
    this.#accepting = new Map();
    this.queue.close();
    this.capacity = this.#openCapacity();
    this.queue = this.#openQueue();
    this.room = this.#openRoom();
    this.#world.tally.slotsChanged(this.#world.clock.now(), this.slots);
  }

  /** Calls `start` when a slot is reserved for the job. */
  enqueue(key: JobKey, owner: string, start: () => void): void {
    this.#starts.set(jobKeyText(key), start);
    this.queue.add({ ...key, owner, demand: DEMAND });
  }

  /** How long a job runs here, in milliseconds. */
  runtime(job: number): number {
    return ((this.#world.durations[job] ?? 0) / this.speed) * 1000;
  }

  status(origin: string) {
    return this.room.statusFor(origin);
  }

  /** An offer that is repeated while it is considered, or later, gets the same answer. */
  offer(offer: Offer, job: number, origin: SimulatedOrigin, worker: Service): Promise<OfferAnswer> {
    const name = `${offer.job.id}.${offer.epoch}`;
    const key = { service: worker.definition.name, id: name };
    const known = this.#attempts.get(name);
    if (known) return Promise.resolve({ kind: 'taken', attempt: name, ...this.#roomFor(origin) });
    const current = this.#accepting.get(name);
    if (current) return current;
    const accepting = this.#accept(offer, { key, job, origin, epoch: offer.epoch, isOver: false }, worker);
    this.#accepting.set(name, accepting);
    const forget = () => void this.#accepting.delete(name);
    accepting.then(forget, forget);
    return accepting;
  }

  async #accept(offer: Offer, attempt: HostedAttempt, worker: Service): Promise<OfferAnswer> {
    const { key, origin } = attempt;
    const { capacity, room } = this;
    let reserved: 'reserved' | 'waits';
    try {
      reserved = reserveRoom(key, offer, worker, { capacity, dispatcher: this, quotas: NO_QUOTAS, room });
    } catch (error) {
      if (!(error instanceof OscarError)) throw error;
      return { kind: 'refused', code: 'no-room', reason: error.message, ...this.#roomFor(origin) };
    }
    const considered = reserved === 'reserved' ? room.consider(origin.id, DEMAND) : room.enter();
    try {
      await this.#ask(origin, PERMIT_MS, () => origin.permit(attempt, this.id));
    } catch (error) {
      capacity.release(jobKeyText(key));
      const code = attemptOverReason(error) === undefined ? 'failed' : 'fenced';
      return { kind: 'refused', code, reason: 'no permit', ...this.#roomFor(origin) };
    } finally {
      considered();
    }
    // It died while it waited for the permit.
    if (capacity !== this.capacity || !this.isUp) throw new PeerError('unreachable', 'connection reset');
    this.#attempts.set(key.id, attempt);
    if (reserved === 'reserved') this.#run(attempt);
    else this.enqueue(key, `origin of ${origin.id}`, () => this.#run(attempt));
    return { kind: 'taken', attempt: key.id, ...this.#roomFor(origin) };
  }

  #run(attempt: HostedAttempt): void {
    const { clock } = this.#world;
    attempt.startedAt = clock.now();
    this.running++;
    void this.#keepReporting(attempt);
    clock.after(this.runtime(attempt.job), () => {
      if (attempt.isOver) return;
      attempt.isOver = true;
      this.#release(attempt);
      this.durations.add(this.runtime(attempt.job) / 1000);
      void this.#reportEnd(attempt, clock.now());
    });
  }

  #release({ key }: HostedAttempt): void {
    this.running--;
    this.capacity.release(jobKeyText(key));
  }

  /** At the start of the script, and then three times per lease. */
  async #keepReporting(attempt: HostedAttempt): Promise<void> {
    const { clock } = this.#world;
    const { startedAt = 0 } = attempt;
    if (attempt.isOver) return;
    const said = await this.#report(attempt, { state: 'running', startedAt });
    if (attempt.isOver) return;
    if (said === 'over') {
      attempt.isOver = true;
      return this.#release(attempt);
    }
    clock.after(LEASE.lease / 3, () => void this.#keepReporting(attempt));
  }

  async #reportEnd(attempt: HostedAttempt, finishedAt: number): Promise<void> {
    const { clock, random } = this.#world;
    const { attempts } = { attempts: this.#attempts };
    const { startedAt = 0 } = attempt;
    const ending = { startedAt, finishedAt, exitCode: 0, reason: 'Completed', message: 'done', manifest: 'none' };
    // The next job starts before the report is sent, as in the real dispatcher.
    await Promise.resolve();
    for (let tries = 1; attempts === this.#attempts && this.isUp; tries++) {
      if ((await this.#report(attempt, { state: 'succeeded', ...ending })) !== 'silent') break;
      const { promise, resolve } = Promise.withResolvers<void>();
      clock.after(Math.min(delegationBackoff(tries, random), LEASE.lease / 3), resolve);
      await promise;
    }
    attempts.delete(attempt.key.id);
  }

  async #report(attempt: HostedAttempt, report: Report): Promise<'heard' | 'silent' | 'over'> {
    const { origin } = attempt;
    try {
      await this.#ask(origin, REPORT_MS, () =>
        origin.report(attempt, { ...report, ...this.#roomFor(origin) }, this.id),
      );
      return 'heard';
    } catch (error) {
      return attemptOverReason(error) === undefined ? 'silent' : 'over';
    }
  }

  #ask<T>(origin: SimulatedOrigin, deadlineMs: number, call: () => Promise<T>): Promise<T> {
    return this.#world.network.request(origin.cluster, deadlineMs, call);
  }

  #roomFor(origin: SimulatedOrigin) {
    return this.#world.options.isStale ? {} : { room: this.room.statusFor(origin.id) };
  }

  #openCapacity(): LocalCapacity {
    const capacity = new LocalCapacity({
      name: this.id,
      cpu: this.slots * DEMAND.cpu,
      memory: this.slots * DEMAND.memory,
      used: () => ({ cpu: 0, memory: 0 }),
    });
    capacity.onFreed(() => {
      if (capacity === this.capacity) this.queue.onCapacityFreed();
    });
    return capacity;
  }

  #openQueue(): JobQueue {
    return new JobQueue({
      capacity: this.capacity,
      services: { get: async () => undefined },
      runner: {},
      start: ({ key }) => {
        const start = this.#starts.get(jobKeyText(key));
        this.#starts.delete(jobKeyText(key));
        start?.();
      },
      setMessage: () => {},
      onSuspendedLong: () => {},
      report: fail,
    });
  }

  #openRoom(): TargetRoom {
    return new TargetRoom({
      ownStatus: () => ({ ...snapshotFromNodes(this.capacity.nodes(), this.durations.value), pending: this.waiting }),
      dispatcher: this,
      now: this.#world.clock.now,
    });
  }
}

const NO_QUOTAS = { reserve: () => undefined, release: () => undefined };

function fail(problem: unknown): never {
  throw problem instanceof Error ? problem : new Error(String(problem));
}

const memberName = (cluster: string, service: string) => `${cluster}/${service}`;

/** A cluster that coordinates a federation, with the real delegator. */
class SimulatedOrigin {
  readonly cluster: SimulatedCluster;
  readonly #world: World;
  readonly #service: Service;
  readonly #store: MemoryJobs;
  readonly #board: Scoreboard;
  readonly #delegator: Delegator;
  #nonce = 0;

  constructor(cluster: SimulatedCluster, world: World) {
    const { options, clock, random, tally } = world;
    this.cluster = cluster;
    this.#world = world;
    const name = `service-of-${cluster.id}`;
    this.#service = aService(
      {
        name,
        cpu: '1',
        memory: '1Mi',
        federation: {
          topology: 'star',
          delegation: options.policy,
          delegate_when: options.mode,
          self: {},
          members: [{ type: 'oscar', cluster_id: 'any', service_name: 'any' }],
        },
      },
      { uid: `uid-of-${name}`, federation: { role: 'coordinator', uid: name, revision: 1, committed: true } },
    );
    this.#store = new MemoryJobs(tally);
    this.#board = new Scoreboard({ elapsed: clock.now, after: (ms, call) => clock.after(ms, call), random });
    const record = { service: this.#service, version: 'one' as Version };
    const federation = this.#federation();
    this.#delegator = new Delegator({
      store: this.#store,
      services: { get: async () => record },
      users: { find: () => undefined },
      scheduler: this.#scheduler(),
      objects: NO_OBJECTS,
      federations: { get: async () => federation },
      scoreboard: this.#board,
      ownStatus: () => ({
        snapshot: snapshotFromNodes(cluster.capacity.nodes(), cluster.durations.value),
        waiting: cluster.waiting,
        durationOf: () => cluster.durations.value,
      }),
      self: { clusterId: cluster.id, store: { endpoint: 'http://store', region: 'none', verify: true } },
      commit: async () => ({ outcome: 'committed', objects: 0, notes: [] }),
      maxEventBytes: 1024,
      reofferAfter: 30_000,
      lease: LEASE,
      clock,
      elapsed: clock.now,
      random,
      meters: tally.meters,
      report: (problem) => {
        if (!(problem instanceof OscarError)) fail(problem);
      },
    });
  }

  get id(): string {
    return this.cluster.id;
  }

  start(): void {
    this.#delegator.start();
  }

  stop(): void {
    this.#delegator.stop();
    this.#board.close();
  }

  submit(job: number): void {
    const record = this.#store.add(job, this.#service, this.#world.clock.now(), this.id);
    this.#enqueue(record, placementModeFor(this.#service, record));
  }

  permit({ job, epoch, key }: HostedAttempt, by: string) {
    return this.#delegator.permit({ job: this.#keyOf(job), epoch }, this.#requester(by, key.service));
  }

  report({ job, epoch, key }: HostedAttempt, report: Report, by: string) {
    return this.#delegator.report({ job: this.#keyOf(job), epoch }, report, this.#requester(by, key.service));
  }

  #keyOf(job: number): JobKey {
    return { service: this.#service.definition.name, id: String(job) };
  }

  #requester(clusterId: string, service: string): Parameters<Delegator['permit']>[1] {
    const { uid, definition } = this.#service;
    const member = {
      clusterId,
      service,
      endpoint: clusterId,
      verify: true,
      guarded: false,
      kind: 'oscar' as const,
      keyId: '',
      state: 'made' as const,
      since: 0,
    };
    const ledger = {
      uid: definition.name,
      service: definition.name,
      serviceUid: uid,
      phase: 'active' as const,
      revision: 1,
      begunAt: 0,
      members: [],
    };
    const asking = { time: this.#world.clock.now(), nonce: String(this.#nonce++) };
    return { ledger, member, record: { service: this.#service, version: 'one' as Version }, asking };
  }

  #federation(): DelegatingFederation {
    const { clusters, network } = this.#world;
    const service = this.#service;
    const uid = service.definition.name;
    const members = clusters
      .filter((cluster) => cluster !== this.cluster)
      .map((cluster): DelegationMember => {
        const worker = aService({ name: `worker-of-${this.cluster.id}`, cpu: '1', memory: '1Mi' });
        const id = memberName(cluster.id, worker.definition.name);
        const target: Target = {
          offer: (offer) =>
            network.request(cluster, OFFER_MS, () => cluster.offer(offer, Number(offer.job.id), this, worker)),
          status: async () => {
            const { clock } = this.#world;
            const askedAt = clock.now();
            const snapshot = await network.request(cluster, STATUS_MS, async () => cluster.status(this.id));
            return { ...snapshot, roundTrip: clock.now() - askedAt };
          },
          stop: async () => {},
          logs: unused,
        };
        return {
          id,
          type: 'oscar',
          place: cluster.id,
          service: worker.definition.name,
          priority: 0,
          endpoint: cluster.id,
          sendsReports: true,
          target,
          credentials: { uid, member: id, key: new Secret('') },
        };
      });
    return { service, uid, members };
  }

  #scheduler() {
    const { cluster } = this;
    return {
      get waiting() {
        return cluster.waiting;
      },
      get running() {
        return cluster.running;
      },
      enqueue: (job: JobRecord, mode: PlacementMode = 'local') => this.#enqueue(job, mode),
      withdraw: (key: JobKey) => cluster.queue.remove(key),
      notify: (record: JobRecord) => this.#store.forget(record),
      begin: unused,
      cancel: unused,
      waitUntilEnded: unused,
      onChanged: unused,
      onRemoved: unused,
    };
  }

  #enqueue({ service, id, owner }: JobRecord, mode: PlacementMode): void {
    const key = { service, id };
    if (mode === 'any') return this.#delegator.consider(key, mode);
    this.cluster.enqueue(key, owner, () => void this.#runHere(key));
    if (mode !== 'local' && this.cluster.queue.waitsForRoom(key)) this.#delegator.consider(key, mode);
  }

  async #runHere(key: JobKey): Promise<void> {
    const { clock } = this.#world;
    const { cluster } = this;
    const word = { reason: 'Started', message: 'the script runs', place: this.id };
    const startedAt = clock.now();
    const started = await changeJob(key, this.#store, (job) =>
      job.state === 'queued' ? advance(job, { ...word, state: 'running', at: startedAt }, { startedAt }) : undefined,
    );
    if (!started) return cluster.capacity.release(jobKeyText(key));
    cluster.running++;
    const runtime = cluster.runtime(Number(key.id));
    clock.after(runtime, () => {
      cluster.running--;
      cluster.capacity.release(jobKeyText(key));
      cluster.durations.add(runtime / 1000);
      void this.#endHere(key);
    });
  }

  async #endHere(key: JobKey): Promise<void> {
    const at = this.#world.clock.now();
    const word = { state: 'succeeded', at, reason: 'Completed', message: 'done', place: this.id } as const;
    const ended = await changeJob(key, this.#store, (job) => advance(job, word, { finishedAt: at }));
    if (ended) this.#store.forget(ended);
  }
}

const unused = (): never => {
  throw new Error('not part of the simulation');
};

/** Nothing is staged, and no key is real. */
const NO_OBJECTS = {
  stagingBucket: 'staging',
  bucket: async () => undefined,
  issue: async () => ({
    id: '',
    accessKey: new Secret(''),
    secretKey: new Secret(''),
    sessionToken: new Secret(''),
    expiresAt: new Date(0),
    revocable: false,
  }),
  revokeFor: async () => {},
  objects: async () => ({ items: [] }),
  removeObjects: async () => {},
};

const EVENT = Buffer.from('{}');

/** The records of the jobs that have not ended, in memory, with the same compare-and-swap as the real stores. */
class MemoryJobs implements JobStore {
  readonly #records = new Map<string, JobRecord>();
  readonly #tally: Tally;
  #versions = 0;

  constructor(tally: Tally) {
    this.#tally = tally;
  }

  add(job: number, { definition, uid, owner }: Service, at: number, place: string): JobRecord {
    const record: JobRecord = {
      service: definition.name,
      id: String(job),
      serviceUid: uid,
      owner,
      principal: owner,
      invoker: '',
      trigger: 'job',
      byToken: false,
      demand: DEMAND,
      acceptedAt: at,
      eventBytes: EVENT.length,
      version: this.#nextVersion(),
      ...accepted(at, place),
    };
    this.#records.set(record.id, record);
    this.#tally.accepted(job, at);
    return record;
  }

  /** Ended jobs need no memory. */
  forget({ id, state }: JobRecord): void {
    if (isFinal(state)) this.#records.delete(id);
  }

  async get({ id }: JobKey): Promise<JobRecord | undefined> {
    return this.#records.get(id);
  }

  getFresh = (key: JobKey) => this.get(key);

  async event({ id }: JobKey): Promise<Uint8Array | undefined> {
    return this.#records.has(id) ? EVENT : undefined;
  }

  async update({ id }: JobKey, expected: Version, change: Partial<JobProgress>): Promise<JobRecord> {
    const known = this.#records.get(id);
    if (!known) throw new StoreError('absent', 'the job has ended');
    if (known.version !== expected) throw new StoreError('conflict', 'another writer was first');
    const record = { ...known, ...change, version: this.#nextVersion() };
    this.#records.set(id, record);
    if (change.state !== undefined && isFinal(change.state)) this.#tally.jobEnded(record);
    return record;
  }

  #nextVersion(): Version {
    return String(this.#versions++) as Version;
  }

  accept = unused;
  list = unused;
  unfinished = unused;
  changes = unused;
  onChange = unused;
  remove = unused;
  removeService = unused;
  expire = unused;
  dropTombstones = unused;
  counts = unused;
  oldestWaiting = unused;
  usage = unused;
}

/** What happened, for the result. */
class Tally {
  ended = 0;
  readonly #accepted: Float64Array;
  readonly #starts: Float64Array;
  readonly #ends: Float64Array;
  readonly #endings: Uint8Array;
  readonly #slots: { readonly at: number; readonly change: number }[] = [];
  #decisions = 0;
  #decisionSeconds = 0;
  #delegated = 0;
  #leasesExpired = 0;

  constructor(jobs: number) {
    this.#accepted = new Float64Array(jobs);
    this.#starts = new Float64Array(jobs);
    this.#ends = new Float64Array(jobs);
    this.#endings = new Uint8Array(jobs);
  }

  readonly meters = {
    offered: () => {},
    decided: (seconds: number) => {
      this.#decisions++;
      this.#decisionSeconds += seconds;
    },
    committed: () => {},
    leaseExpired: () => void this.#leasesExpired++,
    fenced: () => {},
  };

  accepted(job: number, at: number): void {
    this.#accepted[job] = at;
  }

  slotsChanged(at: number, change: number): void {
    this.#slots.push({ at, change });
  }

  jobEnded({ id, startedAt = 0, finishedAt = 0, placement, state }: JobRecord): void {
    if (state !== 'succeeded') throw new Error(`job ${id} has ${state}`);
    const job = Number(id);
    this.#endings[job] = (this.#endings[job] ?? 0) + 1;
    if (this.#endings[job] === 1) this.ended++;
    this.#starts[job] = startedAt;
    this.#ends[job] = finishedAt;
    if (placement) this.#delegated++;
  }

  result({ clock, network, options }: World): SimulationResult {
    const starts = this.#starts.toSorted();
    const waits = this.#starts.map((at, job) => (at - (this.#accepted[job] ?? 0)) / 1000);
    return {
      utilisation: this.#busyUntil(starts.at(-1) ?? 0),
      bulkUtilisation: this.#busyUntil(starts[Math.floor(0.95 * (starts.length - 1))] ?? 0),
      meanWaitSeconds: waits.reduce((sum, wait) => sum + wait, 0) / waits.length,
      p99WaitSeconds: percentile([...waits], 99),
      requestsPerJob: network.requests / options.jobs,
      decisionMicroseconds: (1e6 * this.#decisionSeconds) / this.#decisions,
      ended: this.ended,
      endedTwice: this.#endings.reduce((sum, endings) => sum + (endings > 1 ? 1 : 0), 0),
      delegated: this.#delegated,
      leasesExpired: this.#leasesExpired,
      seconds: clock.now() / 1000,
    };
  }

  /** The share of slot time until then in which a script ran, in %. */
  #busyUntil(end: number): number {
    let [ran, available] = [0, 0];
    for (const [job, at] of this.#starts.entries()) ran += Math.max(0, Math.min(this.#ends[job] ?? at, end) - at);
    for (const { at, change } of this.#slots) available += change * Math.max(0, end - at);
    return (100 * ran) / available;
  }
}
