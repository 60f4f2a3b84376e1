import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { Scoreboard } from '../src/delegation/index.ts';
import { chooseMember } from '../src/delegation/origin/choose-member.ts';
import type { DelegatingFederation, DelegationMember } from '../src/delegation/origin/federation-cache.ts';
import { RemoteAttempts } from '../src/delegation/origin/remote-attempts.ts';
import { InFlightJobs } from '../src/delegation/scoreboard/scoreboard.ts';
import { systemClock } from '../src/lib/clock.ts';
import { Secret } from '../src/lib/secret.ts';
import type { JobRecord } from '../src/model/job/index.ts';
import { POLICY_NAMES } from '../src/model/service/index.ts';
import { aService } from '../src/model/service/service.fixture.ts';
import type { Target } from '../src/peers/index.ts';
import type { Figure, Measured } from './support/benchmark.ts';
import { burst, createDelegated, startDelegating } from './support/delegating.ts';
import { startInProcess } from './support/in-process-federation.ts';
import { repeated } from './support/interleaved.ts';
import { STAYS } from './support/no-op-runner.ts';
import { median, percentile } from './support/statistics.ts';
import { type BenchUser, startUser } from './support/user.ts';

export const description =
  'jobs that go to other clusters: where to, how long until one is taken over links of 50 ms, how many in a second';

export const figures = {
  decision: { what: 'decide among 50 members, the slowest policy, median', unit: 'ms', reach: ['<', 5] },
  decisionSlow: { what: '… 99th percentile', unit: 'ms' },
  taken: {
    what: 'job accepted to taken by a member, links of 50 ms, median',
    unit: 'ms',
    reach: ['≤', 180],
    goManager: '2.4 s',
  },
  takenSlow: { what: '… 95th percentile', unit: 'ms' },
  takenAtOnce: { what: 'jobs taken by five members, durable, nothing is run', unit: '/s', reach: ['≥', 150] },
  committedAtOnce: { what: '… ended there and committed', unit: '/s' },
  inProcess: {
    what: 'jobs delegated and committed, all in one process and in memory',
    unit: '/s',
    reach: ['≥', 500],
  },
} satisfies Record<string, Figure>;

const ROUND_TRIP_MS = 50;

/** Jobs over slow links, one after the other, after some that warm up. */
const FAR_JOBS = 30;
const WARM_UP = 5;

const MANY_MEMBERS = 50;
const UNDER_WAY = 200;
const DECISIONS = 1_000;

const FEW_MEMBERS = 5;

/** Jobs of one round. */
const BURST = 500;
const BURST_IN_PROCESS = 1_000;

/** Managers whose scripts are not run. */
const NO_OP = [fileURLToPath(import.meta.resolve('./support/no-op-manager.ts')), 'serve'];

export async function run(): Promise<Measured<typeof figures>> {
  await using user = await startUser();
  return {
    ...(await decided()),
    ...(await takenFarAway(user)),
    ...(await manyAtOnce(user)),
    inProcess: await inOneProcess(),
  };
}

/** As the origin decides, from its cached state; each policy many times. */
async function decided() {
  const board = new Scoreboard();
  const members = Array.from({ length: MANY_MEMBERS }, (_, index) => memberAt(index));
  const asked = members.map((member) => ({
    endpoint: member.endpoint,
    fetchSnapshot: () => member.target.status(member.credentials),
  }));
  board.watch(asked);
  while (members.some((member) => board.snapshotFor(member.endpoint) === undefined)) await Promise.resolve();

  // What is under way counts too.
  for (let sent = 0; sent < UNDER_WAY; sent++)
    board.addInFlight(memberAt(sent % MANY_MEMBERS).endpoint, aJob().demand).accepted();
  const status = { snapshot: await statusOf(0), waiting: 0 };
  const enteringQueue = new InFlightJobs(() => 0);
  const self = { clusterId: 'here', store: STORE };
  const deps = {
    scoreboard: board,
    ownStatus: () => status,
    enteringQueue,
    attempts: new RemoteAttempts(),
    self,
    random: Math.random,
    clock: systemClock,
  };
  const times = POLICY_NAMES.map((policy) => {
    const federation = federationOf(policy, members);
    const question = { record: aJob(), federation, mode: 'any', refusals: new Map() } as const;
    return Array.from({ length: DECISIONS }, () => {
      const begun = performance.now();
      const { chosen } = chooseMember(question, deps);
      const taken = performance.now() - begun;
      if (!chosen) throw new Error('no member could take the job: not a benchmark');
      return taken;
    });
  });
  board.close();
  return {
    decision: Math.max(...times.map((each) => median(each))),
    decisionSlow: Math.max(...times.map((each) => percentile(each, 99))),
  };
}

const STORE = { endpoint: 'http://127.0.0.1:1', region: 'us-east-1', verify: true };

/** Ten nodes each, none like the other. */
const statusOf = async (index: number) => {
  const nodes = Array.from({ length: 10 }, (_, node) => ({
    cpu: 1000 + 97 * ((index + node) % 31),
    memory: 2 ** 30 * (1 + ((index * node) % 7)),
    gpu: 0,
  }));
  const freeCpu = nodes.reduce((sum, { cpu }) => sum + cpu, 0);
  return { nodes, freeCpu, nodeCount: nodes.length, age: 0, pending: index % 5, roundTrip: 5 + (index % 40) };
};

function memberAt(index: number): DelegationMember {
  const id = `cluster-${index}/demo-${index}`;
  return {
    id,
    type: 'oscar',
    place: `cluster-${index}`,
    service: `demo-${index}`,
    priority: index % 3,
    endpoint: id,
    sendsReports: true,
    target: { status: () => statusOf(index) } as Partial<Target> as Target,
    credentials: { uid: 'federation', member: id, key: new Secret('key') },
  };
}

function federationOf(delegation: string, members: readonly DelegationMember[]): DelegatingFederation {
  const listed = members.map(({ place, service }) => ({ type: 'oscar', cluster_id: place, service_name: service }));
  const service = aService({ federation: { topology: 'star', delegation, delegate_when: 'always', members: listed } });
  return { service, uid: 'federation', members };
}

const aJob = () =>
  ({
    service: 'demo',
    id: `demo-${randomUUID()}`,
    demand: { cpu: 500, memory: 2 ** 28, gpu: 0 },
  }) as Partial<JobRecord> as JobRecord;

/** A file comes into a bucket here, and a member far away takes the job, having seen that it can read the file. */
async function takenFarAway(user: BenchUser) {
  let heard: (at: number) => void = () => {};
  await using far = await startDelegating(user, {
    members: 1,
    program: NO_OP,
    roundTripMs: ROUND_TRIP_MS,
    heard: (piece) => {
      if (piece.subarray(0, CREATED.length).equals(CREATED)) heard(performance.timeOrigin + performance.now());
    },
  });
  await createDelegated(far, 'far', STAYS);
  const times: number[] = [];
  for (let job = 0; job < WARM_UP + FAR_JOBS; job++) {
    const { promise: taken, resolve } = Promise.withResolvers<number>();
    heard = resolve;
    await far.outside.put(user.as, `far/in/${job}`, 'a file');
    const at = await taken;
    const [newest] = (await far.outside.jobs(user.as, 'far')) as unknown as { readonly accepted_at: string }[];
    times.push(at - Date.parse(newest?.accepted_at ?? ''));
  }
  const counted = times.slice(WARM_UP);
  return { taken: median(counted), takenSlow: percentile(counted, 95) };
}

const CREATED = Buffer.from('HTTP/1.1 201 ');

async function manyAtOnce(user: BenchUser) {
  await using delegating = await startDelegating(user, { members: FEW_MEMBERS, program: NO_OP });
  const staying = { name: 'stays', token: await createDelegated(delegating, 'stays', STAYS), jobs: BURST };
  const quick = { name: 'quick', token: await createDelegated(delegating, 'quick', 'true'), jobs: BURST };
  return {
    committedAtOnce: await repeated(() => burst(delegating, { ...quick, until: 'committed' })),
    takenAtOnce: await repeated(() => burst(delegating, { ...staying, until: 'taken' })),
  };
}

async function inOneProcess(): Promise<number> {
  await using federation = await startInProcess(FEW_MEMBERS);
  // Awaited, or it would be closed before.
  return await repeated(() => federation.burst(BURST_IN_PROCESS));
}
