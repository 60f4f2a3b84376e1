import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { eventually as tried } from '../src/ports/conformance/eventually.ts';
import { IDS } from './support/cluster-processes.ts';
import { Faults } from './support/delegation-faults.ts';
import { type Asked, type History, storyOf, violationsOf } from './support/delegation-history.ts';
import {
  at,
  createFederation,
  definitionOf,
  jobsOf,
  KINDS,
  PLANS,
  type Plan,
  ROOM,
  runsIn,
  type Scene,
  startScene,
  Uploads,
  workerOf,
} from './support/delegation-scene.ts';
import { ADMIN } from './support/manager.ts';
import { seededRandom } from './support/seeded-random.ts';
import { processesOf } from './support/stray-processes.ts';

const LONG = process.env['OSCAR_TEST_LONG'] !== undefined;
const JOBS = Number(process.env['OSCAR_TEST_JOBS'] ?? (LONG ? 1_000 : 100));
/** At least so many faults; jobs are created at the same pace. */
const DISTURBANCES = Math.round(JOBS / 5);
/** At most so many faults at the same time. */
const LANES = 2;
const CLIENTS = 10;
const SEED = Number(process.env['OSCAR_TEST_SEED'] ?? randomInt(2 ** 31));
/**
 * Long runs, and half of the others, wait until everything recovers by itself. The rest kill and restart all managers,
 * which is faster because no back-off has to pass.
 */
const HEALS_ALONE = LONG || SEED % 2 === 0;
const HEALING = 120_000 + JOBS * 500;
const PATIENCE = 30_000;

test(`delegation: ${JOBS} jobs of eight federations under faults (seed ${SEED})`, {
  timeout: 240_000 + JOBS * 2_000 + 2 * HEALING,
}, async (t) => {
  t.diagnostic(`repeat with OSCAR_TEST_SEED=${SEED}`);
  const scene = await startScene(t);
  for (const plan of PLANS) await createFederation(plan, scene);
  const uploads = new Uploads(scene.clusters);
  const clients = await Promise.all(PLANS.map((plan) => Client.of(plan, scene, uploads)));

  const { asked, disturbances } = await underFaults(scene, clients);
  const [first, last] = [disturbances[0]?.from ?? 0, Math.max(...disturbances.map(({ until }) => until))];
  t.diagnostic(`${asked.length} requests, ${disturbances.length} disturbances within ${last - first} ms`);

  if (!HEALS_ALONE) await Promise.all(scene.clusters.map((each) => each.restart()));
  const began = Date.now();
  const problems: string[] = [];
  const note = (problem: unknown) => void problems.push(String(problem));
  await tried(() => bringTokens(scene).then(() => checkEnded(scene)), HEALING, 500).catch(note);
  t.diagnostic(`all jobs had ended after ${Date.now() - began} ms`);
  await tried(() => checkFree(scene), PATIENCE, 200).catch(note);
  const outputs = scene.clusters.map((each) => each.output());
  for (const index of scene.clusters.keys()) await sweepStaging(index, scene, uploads).catch(note);

  const history = await historyOf(scene, uploads, asked, disturbances);
  const violations = violationsOf(history);
  problems.push(...violations.slice(0, 20).map(({ job, rule }) => `${job}: ${rule}`));
  const stories = [...new Set(violations.map(({ job }) => job))].slice(0, 3).map((job) => storyOf(job, history));
  if (problems.length > 0)
    assert.fail([...problems, ...stories, `the whole history: ${keep(history, outputs)}`].join('\n'));
  t.diagnostic(summaryOf(history));
  for (const cluster of scene.clusters) assert.equal(await cluster.stop(), 0, cluster.output());
});

async function underFaults(scene: Scene, clients: readonly Client[]) {
  const faults = new Faults(scene, seededRandom(SEED ^ 0x5eed), LANES);
  const { disturbances } = faults;
  try {
    return { asked: await ask(clients, () => disturbances.length), disturbances };
  } finally {
    await faults.stop();
  }
}

/** Creates jobs of one service by files and by calls, at the coordinator and at its workers. */
class Client {
  readonly #plan: Plan;
  readonly #scene: Scene;
  readonly #uploads: Uploads;
  /** `Authorization` of the service on each cluster. */
  readonly #tokens: readonly string[];

  private constructor(plan: Plan, scene: Scene, uploads: Uploads, tokens: readonly string[]) {
    this.#plan = plan;
    this.#scene = scene;
    this.#uploads = uploads;
    this.#tokens = tokens;
  }

  static async of(plan: Plan, scene: Scene, uploads: Uploads): Promise<Client> {
    const tokens = IDS.map(async (_, index) => {
      const name = index === plan.coordinator ? plan.name : workerOf(plan, index);
      const { json } = await at(scene, index).ask('GET', `/system/services/${name}`, { as: ADMIN });
      return `Bearer ${(json() as { token: string }).token}`;
    });
    return new Client(plan, scene, uploads, await Promise.all(tokens));
  }

  /** Creates one job. `acknowledged` is set if a manager has confirmed it. */
  async ask(way: number, kind: string, key: string, told: Asked[]): Promise<Asked> {
    const { name, coordinator } = this.#plan;
    const one: Asked = { service: name, kind, acknowledged: false, ...(way === 0 && { key }) };
    told.push(one);
    try {
      if (way === 0) {
        await this.#uploads.put(coordinator, name, key, kind);
        one.acknowledged = true;
        return one;
      }
      const index = way === 1 ? coordinator : (coordinator + way - 1) % IDS.length;
      const path = `/job/${index === coordinator ? name : workerOf(this.#plan, index)}`;
      const as = this.#tokens[index] ?? '';
      const { status, headers, text } = await at(this.#scene, index).outside.call('POST', path, { as, body: { kind } });
      // 503: the manager is overloaded, or the coordinator does not answer.
      assert.ok(status === 201 || status === 503, `${path}: ${status} ${text}`);
      if (status !== 201) return one;
      one.id = headers.get('x-oscar-job-id') ?? '';
      one.acknowledged = true;
    } catch (error) {
      // A fault explains a failed request, but no other status.
      if (error instanceof assert.AssertionError) throw error;
    }
    return one;
  }

  async cancel(one: Asked): Promise<void> {
    one.cancelled = true;
    const path = `/system/jobs/${one.service}/${one.id}`;
    await at(this.#scene, this.#plan.coordinator).try('DELETE', path, { as: ADMIN });
  }
}

/** Creates jobs until all are acknowledged, at the pace of the faults. */
async function ask(clients: readonly Client[], disturbed: () => number): Promise<Asked[]> {
  const random = seededRandom(SEED);
  const kinds = Object.keys(KINDS);
  const asked: Asked[] = [];
  const cancels: Promise<void>[] = [];
  let next = 0;
  const run = async () => {
    for (let n = next++; n < JOBS; n = next++) {
      // Only jobs that run longer than a lease can lose it.
      const kind = random() < 0.2 ? 'long' : (kinds[Math.floor(random() * kinds.length)] ?? '');
      const way = Math.floor(random() * 5);
      const client = clients[n % clients.length];
      while (disturbed() < Math.floor((n * DISTURBANCES) / JOBS)) await pause(20);
      for (let tries = 1; ; tries++) {
        const one = await client?.ask(way, kind, `in/${n}-${tries}`, asked);
        if (one?.acknowledged) {
          if (one.id !== undefined && random() < 0.08)
            cancels.push(pause(random() * 2_000).then(() => client?.cancel(one)));
          break;
        }
        await pause(500);
      }
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, run));
  await Promise.all(cancels);
  return asked;
}

/**
 * A manager that is killed after the issuer has rotated the refresh token, but before the new one is on disk, has lost it;
 * so has a manager that gets the answer too late. The federation reports this, and its owner sends a new token.
 */
async function bringTokens(scene: Scene): Promise<void> {
  for (const plan of PLANS) {
    const origin = at(scene, plan.coordinator);
    const seen = await origin.ask('GET', `/system/federation/${plan.name}?include=status`, { as: ADMIN });
    if (!/CredentialsExpired/.test(seen.text)) continue;
    const body = await definitionOf(plan, scene);
    const answer = await origin.ask('PUT', '/system/services', { as: await scene.owner(), body });
    assert.ok(answer.status < 300, answer.text);
  }
}

/** Checks that all jobs have ended. */
async function checkEnded(scene: Scene): Promise<void> {
  for (const plan of PLANS) {
    const { own, taken } = await jobsOf(plan, scene);
    const open = [...own, ...taken].filter(({ state }) => !['succeeded', 'failed', 'cancelled'].includes(state));
    const some = open.slice(0, 3).map(({ id, state, message }) => `${id} is ${state}: ${message}`);
    assert.equal(open.length, 0, `${open.length} jobs have not ended: ${some.join('; ')}`);
  }
}

/** Collects the final state, after the events of all results have arrived at the services that follow. */
async function historyOf(
  scene: Scene,
  uploads: Uploads,
  asked: readonly Asked[],
  disturbances: History['disturbances'],
): Promise<History> {
  const found = [];
  for (const plan of PLANS)
    found.push({ plan, ...(await tried(() => resultsOf(plan, scene, uploads), PATIENCE, 500)) });
  return {
    origins: Object.fromEntries(PLANS.map(({ name, coordinator }) => [name, IDS[coordinator] ?? ''])),
    kinds: KINDS,
    asked,
    jobs: found.flatMap(({ own }) => own),
    taken: found.flatMap(({ taken }) => taken),
    runs: runsIn(scene.meeting),
    objects: found.flatMap(({ objects }) => objects),
    told: found.flatMap(({ plan, followers }) =>
      followers.map(({ object }) => ({ service: plan.name, key: object?.key ?? '' })),
    ),
    staged: (await tried(() => Promise.all(IDS.map((_, index) => uploads.staged(index))), PATIENCE, 500)).flat(),
    disturbances,
  };
}

/** Waits for the events of the results. If some never arrive, the history shows it. */
async function resultsOf(plan: Plan, scene: Scene, uploads: Uploads) {
  const told = async () => {
    const { length } = await uploads.keys(plan);
    assert.ok((await jobsOf(plan, scene)).followers.length >= length);
  };
  await tried(told, PATIENCE, 200).catch(() => undefined);
  return { ...(await jobsOf(plan, scene)), objects: await uploads.results(plan) };
}

/** Checks that all capacity is free again and that no script runs. */
async function checkFree({ clusters }: Scene): Promise<void> {
  for (const cluster of clusters) {
    const { json } = await cluster.ask('GET', '/system/status', { as: ADMIN });
    const { cluster: seen } = json() as { cluster: { metrics: { cpu: { total_schedulable_cores: number } } } };
    assert.equal(seen.metrics.cpu.total_schedulable_cores, ROOM, `millicores that are free at ${cluster.id}`);
    assert.deepEqual(processesOf(join(cluster.directory, 'runs')), [], `processes at ${cluster.id}`);
  }
}

/** A fenced attempt may write after its job has ended. Such files stay until the next sweep, which a restart runs. */
async function sweepStaging(index: number, scene: Scene, uploads: Uploads): Promise<void> {
  if ((await uploads.staged(index)).length === 0) return;
  await at(scene, index).restart();
  await tried(async () => assert.deepEqual(await uploads.staged(index), []), PATIENCE, 200);
}

function keep(history: History, outputs: readonly string[]): string {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-history-'));
  writeFileSync(join(directory, 'history.json'), JSON.stringify({ seed: SEED, ...history }, null, 1));
  for (const [index, output] of outputs.entries()) writeFileSync(join(directory, `${IDS[index]}.log`), output);
  return directory;
}

function summaryOf({ jobs, runs, origins }: History): string {
  const away = jobs.filter(({ service, attempts }) => attempts.some(({ place }) => place !== origins[service])).length;
  const again = jobs.filter(({ attempts }) => attempts.length > 1).length;
  const expired = jobs.filter(({ timeline }) => timeline.some(({ reason }) => reason === 'LeaseExpired')).length;
  return `${jobs.length} jobs, ${runs.length} runs, ${away} delegated, ${again} with several attempts, ${expired} with an expired lease`;
}
