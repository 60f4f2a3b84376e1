import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { type ClusterProcess, type Everything, IDS, startClusterProcesses } from './support/cluster-processes.ts';
import { federated, member } from './support/federation.ts';
import { eventually, service } from './support/jobs.ts';
import { ADMIN } from './support/manager.ts';
import { type People, startPeople } from './support/people.ts';
import { seededRandom } from './support/seeded-random.ts';

const LONG = process.env['OSCAR_TEST_LONG'] !== undefined;
const FEDERATIONS = LONG ? 200 : 20;
const CLIENTS = LONG ? 6 : 5;
/** The minimum number of federations. New ones start while others run. */
const DISTURBANCES = LONG ? 120 : 8;
const SEED = Number(process.env['OSCAR_TEST_SEED'] ?? randomInt(2 ** 31));
/** Long enough for a create to find a moment in which all managers run. */
const TRIES = 30;
/** How long members may take to converge once all managers run; without a restart, back-offs must end first. */
const HEALING = LONG ? 400_000 : 60_000;

test(`${FEDERATIONS} federations while managers are killed and paused (seed ${SEED})`, {
  timeout: 120_000 + FEDERATIONS * 10_000 + 2 * HEALING,
}, async (t) => {
  t.diagnostic(`repeat with OSCAR_TEST_SEED=${SEED}`);
  const people = await startPeople();
  t.after(() => people.issuer.stop());
  const clusters = await startClusterProcesses(t, people);
  const plans = Array.from({ length: FEDERATIONS }, (_, index) => planOf(index));
  await settle(clusters, plans, people);
  const before = await Promise.all(clusters.map((each) => each.everything()));

  const chaos = new Chaos(clusters);
  const queue = plans.entries();
  const client = async () => {
    for (const [index, plan] of queue) {
      while (chaos.kills + chaos.pauses < Math.floor((index * DISTURBANCES) / FEDERATIONS)) await pause(20);
      await live(plan, clusters, people);
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  await chaos.stop();
  t.diagnostic(`${chaos.kills} kills, ${chaos.pauses} pauses`);

  // In long runs the managers recover by themselves. In short ones a last kill -9 of all managers avoids waiting for back-offs.
  if (!LONG) await Promise.all(clusters.map((each) => each.restart()));
  await eventually(() => checkWhole(plans, clusters, before), HEALING);
  const left = await removeAll(plans, clusters, people);
  t.diagnostic(`${left} federations were there in the end`);
  await eventually(async () => {
    for (const [index, each] of clusters.entries()) assert.deepEqual(await each.everything(), before[index], each.id);
  }, HEALING);
});

interface SeenService {
  readonly name: string;
  readonly script: string;
  readonly annotations?: Record<string, string>;
  readonly federation?: { readonly members?: { cluster_id: string; service_name: string }[] };
}

/** The plan of one federation, if nothing disturbs it. */
interface Plan {
  readonly name: string;
  readonly coordinator: number;
  readonly members: readonly Member[];
  /** A member that is added later. */
  readonly late: Member;
  readonly random: () => number;
}

/** `own`: alice has a service there, which is adopted. `foreign`: bob has one, so the create must fail. */
interface Member {
  readonly cluster: number;
  readonly name: string;
  readonly kind: 'new' | 'own' | 'foreign';
}

function planOf(index: number): Plan {
  const random = seededRandom(SEED + index);
  const coordinator = Math.floor(random() * IDS.length);
  const others = IDS.map((_, each) => each).filter((each) => each !== coordinator);
  const members = others.map((cluster, n): Member => {
    const kind = n === 0 && index % 3 === 0 ? 'own' : n === 1 && index % 7 === 0 ? 'foreign' : 'new';
    return { cluster, name: `${kind}${index}-${cluster}`, kind };
  });
  const count = 2 + Math.floor(random() * 2);
  const [late] = others;
  return {
    name: `fed${index}`,
    coordinator,
    members: members.slice(0, count),
    late: { cluster: late ?? 0, name: `late${index}`, kind: 'new' },
    random,
  };
}

/** The services that exist before, and must exist afterwards. */
async function settle(clusters: readonly ClusterProcess[], plans: readonly Plan[], people: People): Promise<void> {
  for (const { cluster, name, kind } of plans.flatMap(({ members }) => members)) {
    if (kind === 'new') continue;
    const secrets = { environment: { secrets: { PASSWORD: `of ${name}` } } };
    const as = kind === 'own' ? people.alice : people.bob;
    const body = service(name, `echo ${name}`, secrets);
    const answer = await at(clusters, cluster).ask('POST', '/system/services', { as, body });
    assert.equal(answer.status, 201, answer.text);
  }
}

/** Kills and pauses managers until it is stopped. */
class Chaos {
  readonly #clusters: readonly ClusterProcess[];
  readonly #random = seededRandom(SEED ^ 0x5eed);
  readonly #running: Promise<void>;
  #stopped = false;
  kills = 0;
  pauses = 0;

  constructor(clusters: readonly ClusterProcess[]) {
    this.#clusters = clusters;
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      await pause(50 + this.#random() * 400);
      const victim = at(this.#clusters, Math.floor(this.#random() * this.#clusters.length));
      if (this.#random() < 0.65) {
        this.kills += 1;
        await victim.restart(this.#random() * 500);
      } else {
        this.pauses += 1;
        // Sometimes longer than the deadline of a probe.
        await victim.freeze(this.#random() < 0.2 ? 3_500 : this.#random() * 800);
      }
    }
  }
}

/** Creates a federation; if that succeeds, changes it and perhaps removes it. */
async function live(plan: Plan, clusters: readonly ClusterProcess[], people: People): Promise<void> {
  const { name, coordinator, members, late, random } = plan;
  const origin = at(clusters, coordinator);
  const as = people.alice;
  const body = (word: string) =>
    federated(
      name,
      members.map(memberOf),
      {},
      { script: `#!/bin/sh\necho ${word}\n`, federation: { topology: 'mesh' } },
    );
  await create(plan, origin, { as, body: body('first') });

  const changes = [
    () => origin.try('PUT', '/system/services', { as, body: body(`second-${random()}`) }),
    () => origin.try('POST', `/system/federation/${name}`, { as, body: { members: [memberOf(late)] } }),
    () =>
      origin.try('DELETE', `/system/federation/${name}`, { as, body: { members: members.slice(0, 1).map(memberOf) } }),
  ];
  for (const change of changes) {
    await pause(random() * 300);
    if (random() < 0.5) await change();
  }
  if (random() < 0.4) await origin.try('DELETE', `/system/services/${name}`, { as });
}

/** Repeats a request until it succeeds, if a manager was unreachable or did not answer. */
async function create(
  { name, members }: Plan,
  origin: ClusterProcess,
  options: { as: string; body: unknown },
): Promise<void> {
  const isFree = members.every(({ kind }) => kind !== 'foreign');
  for (let tries = 1; tries <= TRIES; tries++) {
    const status = (await origin.try('POST', '/system/services', options))?.status ?? 0;
    if (status === 201) {
      assert.ok(isFree, `${name} was made over somebody else's service`);
      return;
    }
    // The name is taken: by the first try, whose answer was lost, or by another user.
    if (status === 409) return;
    assert.ok(status === 0 || status === 424 || status >= 500, `${name}: ${status}`);
    await pause(100);
  }
}

const memberOf = ({ cluster, name }: Member) => member({ id: IDS[cluster] ?? '' }, name);

/**
 * Each federation is complete or absent: its coordinator and all its members have the same uid and revision, or nothing of
 * it exists anywhere. A service that existed before is a member, or is the same byte for byte. Nothing else exists.
 */
async function checkWhole(
  plans: readonly Plan[],
  clusters: readonly ClusterProcess[],
  before: readonly Everything[],
): Promise<void> {
  const now = await Promise.all(clusters.map((each) => each.everything()));
  const explained = now.map(() => new Set<string>());
  for (const { name, coordinator } of plans) {
    const origin = now[coordinator]?.services[name];
    if (origin === undefined) continue;
    explained[coordinator]?.add(name);
    await checkMembers(name, at(clusters, coordinator), now, explained);
  }
  for (const [index, { services }] of now.entries()) {
    const was = before[index]?.services ?? {};
    for (const [name, text] of Object.entries(services)) {
      if (explained[index]?.has(name)) continue;
      assert.equal(text, was[name], `${name} at ${IDS[index]} is an orphan, or was harmed`);
    }
    for (const name of Object.keys(was)) assert.ok(name in services, `${name} at ${IDS[index]} is gone`);
  }
}

async function checkMembers(
  name: string,
  origin: ClusterProcess,
  now: readonly Everything[],
  explained: readonly Set<string>[],
): Promise<void> {
  const { text, json } = await origin.ask('GET', `/system/federation/${name}?include=status`, { as: ADMIN });
  const { members } = json() as { members: SeenMember[] | null };
  const uids = new Set<string | undefined>();
  const revisions = new Set<string | undefined>();
  for (const { cluster_id, service_name, state, reason = '' } of members ?? []) {
    const index = IDS.findIndex((id) => id === cluster_id);
    // A member that was down when it was added waits for its owner: no manager stores the owner's credentials.
    if (state === 'pending' && /update the service once with PUT/.test(reason)) continue;
    assert.equal(state, 'ready', `${name}: ${text}`);
    const worker = JSON.parse(now[index]?.services[service_name] ?? '{}') as SeenService;
    explained[index]?.add(service_name);
    uids.add(worker.annotations?.['oscar.grycap/federation-uid']);
    revisions.add(worker.annotations?.['oscar.grycap/federation-revision']);
    assert.equal(worker.annotations?.['oscar.grycap/origin-service'], name, `${service_name} at ${cluster_id}`);
    assert.equal(
      worker.script,
      (JSON.parse(now[IDS.indexOf(origin.id as (typeof IDS)[number])]?.services[name] ?? '{}') as SeenService).script,
    );
  }
  assert.ok(uids.size <= 1 && revisions.size <= 1, `${name}: ${JSON.stringify([...uids, ...revisions])}`);
}

interface SeenMember {
  readonly cluster_id: string;
  readonly service_name: string;
  readonly state: string;
  readonly reason?: string;
}

/** Returns their number. */
async function removeAll(plans: readonly Plan[], clusters: readonly ClusterProcess[], people: People): Promise<number> {
  let removed = 0;
  for (const { name, coordinator } of plans) {
    const answer = await at(clusters, coordinator).ask('DELETE', `/system/services/${name}`, { as: people.alice });
    assert.ok([204, 404].includes(answer.status), answer.text);
    if (answer.status === 204) removed += 1;
  }
  return removed;
}

function at(clusters: readonly ClusterProcess[], index: number): ClusterProcess {
  const found = clusters[index];
  assert.ok(found);
  return found;
}
