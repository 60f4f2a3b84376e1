import { arch, cpus, loadavg } from 'node:os';
import * as acceptJobs from './accept-jobs.ts';
import * as attacks from './attacks.ts';
import * as commit from './commit.ts';
import * as delegation from './delegation.ts';
import * as federation from './federation.ts';
import * as federationThroughput from './federation-throughput.ts';
import * as isolation from './isolation.ts';
import * as jobs from './jobs.ts';
import * as kubernetes from './kubernetes.ts';
import * as kubernetesStatus from './kubernetes-status.ts';
import * as kubernetesStore from './kubernetes-store.ts';
import * as listServices from './list-services.ts';
import * as objectStore from './object-store.ts';
import * as page from './page.ts';
import * as readService from './read-service.ts';
import * as simulate from './simulate.ts';
import * as start from './start.ts';
import * as storageEvents from './storage-events.ts';
import { type Benchmark, isReached } from './support/benchmark.ts';
import { type Row, table } from './support/table.ts';
import * as thousandJobs from './thousand-jobs.ts';
import * as writeService from './write-service.ts';

/** Runs the benchmarks that need nothing but npm packages, or those named, prints what they measured, and fails if a figure is missed. */

const BENCHMARKS: ReadonlyMap<string, Benchmark> = new Map<string, Benchmark>([
  ['start', start],
  ['read-service', readService],
  ['list-services', listServices],
  ['write-service', writeService],
  ['object-store', objectStore],
  ['storage-events', storageEvents],
  ['page', page],
  ['isolation', isolation],
  ['attacks', attacks],
  ['jobs', jobs],
  ['thousand-jobs', thousandJobs],
  ['accept-jobs', acceptJobs],
  ['commit', commit],
  ['federation', federation],
  ['delegation', delegation],
  ['federation-throughput', federationThroughput],
  ['simulate', simulate],
  ['kubernetes-store', kubernetesStore],
  ['kubernetes-status', kubernetesStatus],
  ['kubernetes', kubernetes],
]);

/** Only when named: they need a control plane of Kubernetes or more of it, and MinIO, which npm does not bring. */
const ON_REQUEST: ReadonlySet<string> = new Set(['kubernetes-store', 'kubernetes-status', 'kubernetes']);

const asked = process.argv.slice(2);
const unknown = asked.filter((name) => !BENCHMARKS.has(name));
if (unknown.length > 0) {
  process.stderr.write(
    `there is no benchmark ${unknown.join(', ')}: choose from ${[...BENCHMARKS.keys()].join(', ')}\n`,
  );
  process.exit(2);
}

const load = () => loadavg()[0]?.toFixed(1);
const loadBefore = load();
const rows: Row[] = [];
for (const [name, { description, figures, run }] of BENCHMARKS) {
  if (asked.length > 0 ? !asked.includes(name) : ON_REQUEST.has(name)) continue;
  process.stderr.write(`${name}: ${description}\n`);
  const measured = await run();
  for (const [key, figure] of Object.entries(figures)) rows.push({ figure, measured: measured[key] ?? Number.NaN });
}

process.stdout.write(`${table(rows)}\n\n`);
process.stdout.write(`${cpus().length} cores (${cpus()[0]?.model.trim()}, ${arch()}), Node ${process.version}, `);
process.stdout.write(`load average ${loadBefore} before and ${load()} after\n`);
if (rows.some(({ figure, measured }) => !isReached(figure, measured))) process.exitCode = 1;
