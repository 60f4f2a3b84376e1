import type { Figure, Measured } from './support/benchmark.ts';
import { type Connection, connect } from './support/connection.ts';
import {
  comeAndGo,
  creatingFederation,
  type Members,
  refused,
  startCoordinator,
  startMembers,
  type Wanted,
} from './support/federations.ts';
import { type MembersAre, startReconciled } from './support/reconciled.ts';
import type { SlowLink } from './support/slow-link.ts';
import { median, percentile } from './support/statistics.ts';
import { type BenchUser, startUser } from './support/user.ts';

export const description =
  'federations made over links of 50 ms, also with a member that is silent; looking after 5,000 members';

const GO_MANAGER = '12.9 s for one member, 6.6 s more for each';

/** A silent member costs what it is given, and the rest no more than a federation of ten that is dialled anew. */
export const figures = {
  cold10: {
    what: 'create a federation of 10, no connection open, median',
    unit: 'ms',
    reach: ['≤', 250],
    goManager: GO_MANAGER,
  },
  cold10First: { what: '… as the first request of a manager that has just started', unit: 'ms' },
  cold10Tls: { what: '… over TLS', unit: 'ms' },
  warm10: { what: '… over connections that are there, median', unit: 'ms', reach: ['≤', 150] },
  warm10Slow: { what: '… … 95th percentile', unit: 'ms' },
  one: { what: '… of 1, median', unit: 'ms' },
  inTurn10: { what: '… 10 times that: one after the other', unit: 'ms' },
  removed10: { what: 'remove it again, median', unit: 'ms' },
  cold50: { what: 'create a federation of 50, no connection open, median', unit: 'ms', reach: ['≤', 350] },
  warm50: { what: '… over connections that are there, median', unit: 'ms', reach: ['≤', 350] },
  inTurn50: { what: '… 50 times one of 1', unit: 'ms' },
  silent: { what: 'refuse a federation of 10 one of which is silent', unit: 'ms', reach: ['≤', 3_250] },
  silentBestEffort: { what: '… make it all the same, `best-effort`', unit: 'ms', reach: ['≤', 3_250] },
  silentLater: {
    what: '… refuse it when one falls silent after its probe, undo included',
    unit: 'ms',
    reach: ['≤', 11_250],
  },
  reconcile: { what: 'looking after 1,000 services of 5 members: CPU of one core', unit: '%', reach: ['<', 5] },
  reconcileHttp: { what: '… with the requests that it takes', unit: '%' },
  reconcilePass: { what: '… one look at all of them', unit: 'ms' },
} satisfies Record<string, Figure>;

const ROUND_TRIP = { roundTripMs: 50 };

/** How often each is done; the first one of each does not count. */
const TURNS = { few: 3, some: 7, many: 22 };

/** Made before anything counts: managers that have just started are a figure of their own. */
const WARM_UP = 10;

const FEDERATIONS = 1_000;
const MEMBERS_EACH = 5;
/** The default of `OSCAR_RECONCILE_INTERVAL`. */
const INTERVAL_MS = 60_000;
const PASSES = 4;

export async function run(): Promise<Measured<typeof figures>> {
  await using user = await startUser();
  await using members = await startMembers(user, ROUND_TRIP);
  return {
    ...(await made(user, members)),
    ...(await withSilence(user, members)),
    cold10First: await asFirstRequest(user, members),
    ...(await lookedAfter()),
  };
}

/** Creates on one manager, which has made a few before; their clusters are other ones each time where nobody is to be known. */
async function made(user: BenchUser, members: Members) {
  await using coordinator = await startCoordinator(user);
  using connection = connect(coordinator.url, user.as);
  const secure = await Promise.all(
    members.links.map((_, index) => members.linkTo(index, { ...ROUND_TRIP, tls: true })),
  );
  const warm = (count: number, turns: number) =>
    inTurns(connection, turns, () => wanted(count, `known`, members.links));
  const cold = (count: number, turns: number, links: readonly SlowLink[]) =>
    inTurns(connection, turns, () => wanted(count, `unknown-${serial()}`, links));

  await warm(10, WARM_UP);
  const warm10 = await warm(10, TURNS.many);
  const cold10 = await cold(10, TURNS.some, members.links);
  const cold10Tls = await cold(10, TURNS.some, secure);
  const one = median((await warm(1, TURNS.some)).made);
  const warm50 = await warm(50, TURNS.some);
  const cold50 = await cold(50, TURNS.some, members.links);
  return {
    cold10: median(cold10.made),
    cold10Tls: median(cold10Tls.made),
    warm10: median(warm10.made),
    warm10Slow: percentile(warm10.made, 95),
    removed10: median(warm10.removed),
    one,
    inTurn10: one * 10,
    cold50: median(cold50.made),
    warm50: median(warm50.made),
    inTurn50: one * 50,
  };
}

/** The first one warms up and does not count. */
async function inTurns(connection: Connection, turns: number, next: () => Wanted) {
  const times: { made: number; removed: number }[] = [];
  for (let turn = 0; turn <= turns; turn++) times.push(await comeAndGo(connection, next()));
  const counted = times.slice(1);
  return { made: counted.map((time) => time.made), removed: counted.map((time) => time.removed) };
}

async function asFirstRequest(user: BenchUser, { links }: Members): Promise<number> {
  const times: number[] = [];
  for (let turn = 0; turn < TURNS.few; turn++) {
    await using coordinator = await startCoordinator(user);
    using connection = connect(coordinator.url, user.as);
    const { made: first } = await comeAndGo(connection, wanted(10, 'first', links));
    times.push(first);
  }
  return median(times);
}

async function withSilence({ as, ...user }: BenchUser, members: Members) {
  await using coordinator = await startCoordinator({ as, ...user });
  const { url } = coordinator;
  using connection = connect(url, as);
  await comeAndGo(connection, wanted(10, 'known', members.links));
  const mute = await members.linkTo(0, { ...ROUND_TRIP, pieces: 0 });
  const fallingMute = await members.linkTo(0, { ...ROUND_TRIP, pieces: 1 });
  const oneOf = (link: SlowLink) => [link, ...Array.from({ length: 9 }, (_, index) => at(members.links, index))];

  const silent = await refused(url, as, wanted(10, 'silent', oneOf(mute)), 504);
  const silentBestEffort = await connection.call(
    creatingFederation({ ...wanted(10, 'silent-once-more', oneOf(mute)), deployment: 'best-effort' }),
  );
  const silentLater = await refused(url, as, wanted(10, 'silent-later', oneOf(fallingMute)), 504);
  return { silent, silentBestEffort, silentLater };
}

const at = (links: readonly SlowLink[], index: number): SlowLink => {
  const link = links[index % links.length];
  if (!link) throw new Error('there are no links');
  return link;
};

let last = 0;
const serial = () => ++last;

const wanted = (members: number, clusters: string, links: readonly SlowLink[]): Wanted => ({
  name: `federation-${serial()}`,
  members,
  clusters,
  links,
});

/** The share of one core that it takes, at the usual interval, when there is nothing to be put right. */
async function lookedAfter() {
  const alone = await costOf('in-process');
  const asking = await costOf('over-http');
  return { reconcile: alone.percent, reconcileHttp: asking.percent, reconcilePass: asking.elapsed };
}

async function costOf(are: MembersAre) {
  await using federations = await startReconciled(FEDERATIONS, MEMBERS_EACH, are);
  const passes: { cpu: number; elapsed: number }[] = [];
  for (let pass = 0; pass <= PASSES; pass++) {
    const before = process.cpuUsage();
    const begun = performance.now();
    await federations.pass();
    const { user, system } = process.cpuUsage(before);
    passes.push({ cpu: (user + system) / 1_000, elapsed: performance.now() - begun });
  }
  const counted = passes.slice(1);
  return {
    percent: (median(counted.map(({ cpu }) => cpu)) / INTERVAL_MS) * 100,
    elapsed: median(counted.map(({ elapsed }) => elapsed)),
  };
}
