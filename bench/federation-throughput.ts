import { setTimeout as pause } from 'node:timers/promises';
import { POLICY_NAMES, type PolicyName } from '../src/model/service/index.ts';
import type { Figure, Measured } from './support/benchmark.ts';
import { createDelegated, type Delegating, startDelegating, submitAll } from './support/delegating.ts';
import { endedWell, idle, scriptService, startJobManager, type TimedJob, timeOf } from './support/job-manager.ts';
import { median } from './support/statistics.ts';
import { type BenchUser, startUser } from './support/user.ts';

export const description = 'slots of a federation kept busy: real scripts on 16 slots of four managers';

const MEMBERS = 3;
const SLOTS_EACH = 4;
const SLOTS = (MEMBERS + 1) * SLOTS_EACH;

/** Each direction of a slow link. */
const LINK_DELAY_MS = 50;

/** A case is measured as often as `rounds` says, after one round that does not count if there are several. */
interface Case {
  readonly scriptMs: number;
  readonly jobs: number;
  readonly rounds: number;
}

const SHORT: Case = { scriptMs: 200, jobs: 240, rounds: 3 };
const MIDDLE: Case = { scriptMs: 1_000, jobs: 64, rounds: 3 };
const LONG: Case = { scriptMs: 10_000, jobs: 48, rounds: 1 };

type Mode = 'saturated' | 'always';

/** Slots can be busy only while jobs wait, so the time after the start of the last job does not count. */
const busy = (what: string): Figure => ({ what: `${what}: share of slot time in which a script ran`, unit: '%' });
const goal = (what: string): Figure => ({ ...busy(what), reach: ['≥', 85] });

export const figures = {
  'saturated-200-near': goal('240 jobs of 0.2 s, `saturated`'),
  'always-200-near': goal('240 jobs of 0.2 s, `always`'),
  'saturated-1000-near': goal('64 jobs of 1 s, `saturated`'),
  'always-1000-near': goal('64 jobs of 1 s, `always`'),
  'saturated-10000-near': goal('48 jobs of 10 s, `saturated`'),
  'always-10000-near': goal('48 jobs of 10 s, `always`'),
  'saturated-200-far': goal('… over links of 50 ms: 240 jobs of 0.2 s, `saturated`'),
  'always-200-far': goal('… over links of 50 ms: 240 jobs of 0.2 s, `always`'),
  'saturated-1000-far': goal('… over links of 50 ms: 64 jobs of 1 s, `saturated`'),
  'always-1000-far': goal('… over links of 50 ms: 64 jobs of 1 s, `always`'),
  'saturated-10000-far': goal('… over links of 50 ms: 48 jobs of 10 s, `saturated`'),
  'always-10000-far': goal('… over links of 50 ms: 48 jobs of 10 s, `always`'),
  'alone-200': busy('one manager with all 16 slots, 240 jobs of 0.2 s'),
  'alone-1000': busy('one manager with all 16 slots, 64 jobs of 1 s'),
  fewestDelegated: {
    what: 'delegated jobs of the first burst of 240, the policy with the fewest',
    unit: 'jobs',
    reach: ['≥', 1],
  },
} satisfies Record<string, Figure>;

/** Rarely: the looks cost the coordinator time too. */
const LOOK_EVERY_MS = 250;

/** A round that takes longer has failed. */
const DEADLINE_MS = 180_000;

/** `OSCAR_BENCH_CASES=200-near,1000-far` measures only the figures whose names contain one of these. */
const WANTED = process.env['OSCAR_BENCH_CASES']?.split(',');

export async function run(): Promise<Measured<typeof figures>> {
  const measured: Record<string, number> = {};
  const settings = { OSCAR_LOCAL_CPU: String(SLOTS_EACH) };
  for (const link of ['near', 'far'] as const) {
    await using user = await startUser();
    const slow = link === 'far' && { roundTripMs: 2 * LINK_DELAY_MS };
    await using delegating = await startDelegating(user, { members: MEMBERS, settings, ...slow });
    if (link === 'near' && isWanted('fewestDelegated')) {
      measured['fewestDelegated'] = await fewestDelegated(delegating, user);
    }
    for (const each of [SHORT, MIDDLE, LONG]) {
      const alone = `alone-${each.scriptMs}`;
      if (link === 'near' && alone in figures && isWanted(alone)) measured[alone] = await measureAlone(user, each);
      for (const mode of ['saturated', 'always'] as const) {
        const name = `${mode}-${each.scriptMs}-${link}`;
        if (isWanted(name)) measured[name] = await measure(delegating, user, mode, each);
      }
    }
  }
  return Object.fromEntries(Object.keys(figures).map((name) => [name, measured[name] ?? Number.NaN])) as Measured<
    typeof figures
  >;
}

const isWanted = (name: string) => WANTED?.some((part) => name.includes(part)) ?? true;

async function measure(delegating: Delegating, user: BenchUser, mode: Mode, { scriptMs, jobs, rounds }: Case) {
  const shares: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const name = `${mode}-${scriptMs}-${round}`;
    const ended = await runBurst(delegating, user, { name, mode, scriptMs, jobs, policy: 'static' });
    const course = toCourse(ended, scriptMs);
    process.stderr.write(`  ${name}: ${course.busy.toFixed(1)} % busy, ${Math.round(course.elapsed)} ms\n`);
    shares.push(course.busy);
  }
  return median(rounds > 1 ? shares.slice(1) : shares);
}

/** The same scripts on as many slots of one manager: what a federation loses beyond this, delegation costs. */
async function measureAlone(user: BenchUser, { scriptMs, jobs, rounds }: Case): Promise<number> {
  const settings = { OSCAR_LOCAL_CPU: String(SLOTS), OSCAR_LOCAL_MEMORY: '100Ti' };
  const definition = scriptService('alone', `sleep ${scriptMs / 1_000}`, { cpu: '1', memory: '64Mi' });
  const shares: number[] = [];
  for (let round = 0; round < rounds; round++) {
    await using alone = await startJobManager(user, definition, { settings });
    await submitAll(alone.manager.url, 'alone', alone.token, jobs);
    await idle(alone, user.as, 'alone', LOOK_EVERY_MS);
    const course = toCourse(await endedWell(alone, user.as, 'alone'), scriptMs);
    process.stderr.write(
      `  alone-${scriptMs}-${round}: ${course.busy.toFixed(1)} % busy, ${Math.round(course.elapsed)} ms\n`,
    );
    shares.push(course.busy);
  }
  return median(rounds > 1 ? shares.slice(1) : shares);
}

/** The first burst of a service, of whose members nothing is known. */
async function fewestDelegated(delegating: Delegating, user: BenchUser): Promise<number> {
  const counts: number[] = [];
  for (const policy of POLICY_NAMES) {
    const { scriptMs, jobs } = SHORT;
    const ended = await runBurst(delegating, user, { name: `by-${policy}`, mode: 'saturated', scriptMs, jobs, policy });
    counts.push(ended.filter(({ timeline }) => timeline.some(({ state }) => state === 'delegated')).length);
    process.stderr.write(`  ${policy}: ${counts.at(-1)} of ${jobs} jobs delegated\n`);
  }
  return Math.min(...counts);
}

interface Burst {
  readonly name: string;
  readonly mode: Mode;
  readonly scriptMs: number;
  readonly jobs: number;
  readonly policy: PolicyName;
}

async function runBurst(delegating: Delegating, user: BenchUser, burst: Burst): Promise<TimedJob[]> {
  const { name, mode, scriptMs, jobs, policy } = burst;
  const token = await createDelegated(delegating, name, `sleep ${scriptMs / 1_000}`, {
    cpu: '1',
    federation: { delegation: policy, delegate_when: mode, self: {} },
  });
  await submitAll(delegating.coordinator.url, name, token, jobs);
  const { outside } = delegating;
  const deadline = performance.now() + DEADLINE_MS;
  for (;;) {
    await pause(LOOK_EVERY_MS);
    const seen = await outside.jobs(user.as, name);
    const left = jobs - seen.filter(({ state }) => state === 'succeeded' || state === 'failed').length;
    if (left === 0) return endedWell({ outside }, user.as, name);
    if (performance.now() > deadline) throw new Error(`${left} of ${jobs} jobs of ${name} have not ended`);
  }
}

/**
 * From the first accepted job to the start of the last. A script counts with its nominal duration: the record's end of a
 * delegated job includes the upload of its results.
 */
function toCourse(jobs: readonly TimedJob[], scriptMs: number) {
  const begin = Math.min(...jobs.map((job) => timeOf(job.accepted_at)));
  const starts = jobs.map((job) => timeOf(job.started_at));
  const end = Math.max(...starts);
  const ran = starts.reduce((sum, start) => sum + Math.min(scriptMs, end - start), 0);
  const elapsed = Math.max(...jobs.map((job) => timeOf(job.timeline.at(-1)?.at))) - begin;
  return { elapsed, busy: (100 * ran) / ((end - begin) * SLOTS) };
}
