import { POLICY_NAMES, type PolicyName } from '../src/model/service/index.ts';
import type { Figure, Measured } from './support/benchmark.ts';
import { type SimulationOptions, type SimulationResult, simulate } from './support/federation-simulation.ts';

export const description = 'federations of up to 1,000 clusters: the real delegator on a simulated clock and network';

const busy = (what: string): Figure => ({
  what: `simulated, ${what}: share of slot time in which a script ran`,
  unit: '%',
  reach: ['≥', 85],
});

export const figures = {
  'busy-40-200-near': busy('40 clusters, jobs of 0.2 s'),
  'busy-40-200-far': busy('40 clusters, jobs of 0.2 s, links of 50 ms'),
  'busy-40-1000-near': busy('40 clusters, jobs of 1 s'),
  'busy-40-1000-far': busy('40 clusters, jobs of 1 s, links of 50 ms'),
  'busy-40-10000-far': busy('40 clusters, jobs of 10 s, links of 50 ms'),
  'busy-400-1000-near': busy('400 clusters, jobs of 1 s'),
  'busy-400-1000-far': busy('400 clusters, jobs of 1 s, links of 50 ms'),
  'busy-400-10000-far': busy('400 clusters, jobs of 10 s, links of 50 ms'),
} satisfies Record<string, Figure>;

const SEED = 21;

/** Two origins on clusters of different size and speed, with long-tailed jobs, dying members and lost messages. */
const ROUGH = {
  clusters: 40,
  jobs: 2_500,
  origins: 2,
  mode: 'saturated',
  meanSeconds: 5,
  isMixed: true,
  linkMs: 20,
  loss: 0.005,
  diesEverySeconds: 600,
  seed: SEED,
} as const satisfies Partial<SimulationOptions>;

type Mode = SimulationOptions['mode'];

/** `OSCAR_BENCH_CASES=busy-40,rough` runs only the parts whose names contain one of these. `million` runs only if named. */
const WANTED = process.env['OSCAR_BENCH_CASES']?.split(',');

const isWanted = (name: string) => WANTED?.some((part) => name.includes(part)) ?? name !== 'million';

export async function run(): Promise<Measured<typeof figures>> {
  const measured: Record<string, number> = {};
  for (const name of Object.keys(figures)) {
    if (isWanted(name)) measured[name] = await measureBusy(name);
  }
  if (isWanted('rough')) await comparePolicies();
  if (isWanted('million')) await runMillion();
  return Object.fromEntries(Object.keys(figures).map((name) => [name, measured[name] ?? Number.NaN])) as Measured<
    typeof figures
  >;
}

/** Jobs for each slot. More of the shortest ones: the first offers to clusters of which nothing is known take three round trips. */
const jobsPerSlot = (ms: number) => (ms < 1_000 ? 30 : 12);

/** Both modes take the same decisions once all slots are busy, so the large federation runs with one. */
const modesFor = (clusters: number) => (clusters > 100 ? ['always'] : ['saturated', 'always']) as readonly Mode[];

/** A burst: the lower share counts. */
async function measureBusy(name: string): Promise<number> {
  const [, clusters = 0, ms = 0] = name.split('-').map(Number);
  const linkMs = name.endsWith('far') ? 50 : 2;
  const shares: number[] = [];
  for (const mode of modesFor(clusters)) {
    const burst = { clusters, jobs: clusters * 4 * jobsPerSlot(ms), meanSeconds: ms / 1000, linkMs, mode, seed: SEED };
    const result = await simulate({ ...burst, policy: 'static' });
    print(`${name} ${mode}`, result);
    shares.push(result.utilisation);
  }
  return Math.min(...shares);
}

/** Each policy, with a burst and with work that arrives at 80 % of the speed of all clusters; told room against asked room. */
async function comparePolicies(): Promise<void> {
  for (const policy of POLICY_NAMES) {
    for (const isStale of [false, true]) {
      const how = isStale ? 'asked' : 'told';
      print(`${policy}, room ${how}, burst`, await simulate({ ...ROUGH, policy, isStale }));
    }
    print(`${policy}, room told, load 0.8`, await simulate({ ...ROUGH, policy, load: 0.8 }));
  }
}

/** 1,000 clusters, ten of which are origins, and a million jobs. */
async function runMillion(): Promise<void> {
  const policy: PolicyName = 'load-based';
  const began = performance.now();
  const result = await simulate({ ...ROUGH, policy, clusters: 1_000, jobs: 1_000_000, origins: 10, load: 0.9 });
  print(`a million jobs, ${Math.round((performance.now() - began) / 1000)} s`, result);
}

function print(what: string, result: SimulationResult): void {
  const { utilisation, meanWaitSeconds, p99WaitSeconds, requestsPerJob, decisionMicroseconds } = result;
  const { bulkUtilisation, delegated, leasesExpired, seconds } = result;
  process.stderr.write(
    `  ${what}: ${utilisation.toFixed(1)} % busy (${bulkUtilisation.toFixed(1)} % until 95 % had started), wait ${meanWaitSeconds.toFixed(1)} s (p99 ${p99WaitSeconds.toFixed(1)} s), ` +
      `${requestsPerJob.toFixed(2)} requests per job, ${decisionMicroseconds.toFixed(0)} µs per decision, ` +
      `${delegated} delegated, ${leasesExpired} leases expired, ${seconds.toFixed(0)} s simulated\n`,
  );
}
