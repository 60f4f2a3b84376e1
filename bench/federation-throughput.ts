import { setTimeout as pause } from 'node:timers/promises';
import type { Figure, Measured } from './support/benchmark.ts';
import { createDelegated, type Delegating, startDelegating, submitAll } from './support/delegating.ts';
import { endedWell, type TimedJob, timeOf } from './support/job-manager.ts';
import { median } from './support/statistics.ts';
import { type BenchUser, startUser } from './support/user.ts';

export const description = 'slots of a federation kept busy: 64 jobs of one second on 16 slots of four clusters';

export const figures = {
  ideal: { what: '64 jobs of 1 s on 16 slots of four clusters, all slots always busy', unit: 'ms' },
  saturated: { what: '… `delegate_when: saturated`, first accepted to last ended', unit: 'ms', reach: ['≤', 7_000] },
  saturatedBusy: { what: '… … share of slot time in which a script ran', unit: '%' },
  always: { what: '… `delegate_when: always`, first accepted to last ended', unit: 'ms', reach: ['≤', 7_000] },
  alwaysBusy: { what: '… … share of slot time in which a script ran', unit: '%' },
} satisfies Record<string, Figure>;

const MEMBERS = 3;
const SLOTS_EACH = 4;
const SLOTS = (MEMBERS + 1) * SLOTS_EACH;
const JOBS = 64;
const SCRIPT_MS = 1_000;

/** The first round warms up and does not count. */
const ROUNDS = 3;

/** Rarely: the looks cost the coordinator time too. */
const LOOK_EVERY_MS = 250;

/** A round that takes longer has failed. */
const DEADLINE_MS = 120_000;

export async function run(): Promise<Measured<typeof figures>> {
  await using user = await startUser();
  const settings = { OSCAR_LOCAL_CPU: String(SLOTS_EACH) };
  await using delegating = await startDelegating(user, { members: MEMBERS, settings });
  const saturated = await measure(delegating, user, 'saturated');
  const always = await measure(delegating, user, 'always');
  return {
    ideal: (JOBS / SLOTS) * SCRIPT_MS,
    saturated: saturated.elapsed,
    saturatedBusy: saturated.busy,
    always: always.elapsed,
    alwaysBusy: always.busy,
  };
}

/** The medians of some rounds. */
async function measure(delegating: Delegating, user: BenchUser, mode: 'saturated' | 'always') {
  const rounds: { elapsed: number; busy: number }[] = [];
  for (let round = 0; round <= ROUNDS; round++) {
    const name = `${mode}-${round}`;
    const token = await createDelegated(delegating, name, `sleep ${SCRIPT_MS / 1_000}`, {
      cpu: '1',
      federation: { delegation: 'static', delegate_when: mode, self: {} },
    });
    await submitAll(delegating.coordinator.url, name, token, JOBS);
    rounds.push(courseOf(await allEnded(delegating, user.as, name)));
  }
  const counted = rounds.slice(1);
  return {
    elapsed: median(counted.map(({ elapsed }) => elapsed)),
    busy: median(counted.map(({ busy }) => busy)),
  };
}

async function allEnded({ outside }: Delegating, as: string, name: string): Promise<TimedJob[]> {
  const deadline = performance.now() + DEADLINE_MS;
  for (;;) {
    await pause(LOOK_EVERY_MS);
    const jobs = await outside.jobs(as, name);
    const left = JOBS - jobs.filter(({ state }) => state === 'succeeded' || state === 'failed').length;
    if (left === 0) return endedWell({ outside }, as, name);
    if (performance.now() > deadline) throw new Error(`${left} of ${JOBS} jobs of ${name} have not ended`);
  }
}

function courseOf(jobs: readonly TimedJob[]) {
  const accepted = Math.min(...jobs.map((job) => timeOf(job.accepted_at)));
  const elapsed = Math.max(...jobs.map((job) => timeOf(job.timeline.at(-1)?.at))) - accepted;
  const ran = jobs.reduce((sum, job) => sum + timeOf(job.finished_at) - timeOf(job.started_at), 0);
  return { elapsed, busy: (100 * ran) / (elapsed * SLOTS) };
}
