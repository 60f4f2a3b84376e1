import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openLocalCluster } from '../src/adapters/sqlite/index.ts';
import { sampleJob, sampleProgress } from '../src/ports/conformance/sample-job.ts';
import type { JobStore } from '../src/ports/index.ts';
import type { Figure, Measured } from './support/benchmark.ts';
import { fillWithJobs } from './support/finished-jobs.ts';
import { interleaved, repeated } from './support/interleaved.ts';
import { type JobManager, NO_FILES, scriptService, startJobManager } from './support/job-manager.ts';
import { median } from './support/statistics.ts';
import { throughput } from './support/throughput.ts';
import { type BenchUser, startUser } from './support/user.ts';

export const description = 'jobs accepted and listed by a manager that is busy, with few and with many that have ended';

export const figures = {
  accepted: { what: 'jobs accepted by `/job`, durable, 64 in flight', unit: '/s', reach: ['≥', 4_000] },
  acceptedPerCpu: { what: '… in each second of CPU that the manager uses', unit: '/s' },
  raw: { what: '… by the store itself, in process', unit: '/s' },
  acceptedGrown: { what: '… with 100,000 that have ended, relative to 100', unit: '%', reach: ['≥', 80] },
  list: { what: 'GET of the newest 70 jobs among 100, 16 connections', unit: '/s' },
  listGrown: { what: '… among 100,000, relative to it', unit: '%', reach: ['≥', 80] },
} satisfies Record<string, Figure>;

const IN_FLIGHT = 64;
const FEW = 100;
const MANY = 100_000;

/** Shorter than usual, so that what is accepted meanwhile stays little beside what has ended. */
const SECONDS = 1;

/** Its first job has the whole cluster, so that the others are accepted and nothing else. */
const BUSY = scriptService('busy', 'exec sleep 600', { ...NO_FILES, cpu: '1' });
const ONE_CORE = { OSCAR_LOCAL_CPU: '1' };

export async function run(): Promise<Measured<typeof figures>> {
  await using user = await startUser();
  return { raw: await intoStore(), ...(await overHttp(user)), ...(await amongFewAndMany(user)) };
}

async function intoStore(): Promise<number> {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-bench-'));
  const cluster = openLocalCluster({ directory });
  try {
    return await repeated(() => acceptInProcess(cluster.jobs));
  } finally {
    await cluster.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

async function acceptInProcess(store: JobStore): Promise<number> {
  const event = Buffer.from('{}');
  const begun = performance.now();
  const end = begun + SECONDS * 1_000;
  let accepted = 0;
  const worker = async () => {
    while (performance.now() < end) {
      await store.accept(sampleJob(crypto.randomUUID()), sampleProgress('queued'), event);
      accepted++;
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, worker));
  return accepted / ((performance.now() - begun) / 1_000);
}

async function overHttp(user: BenchUser) {
  await using busy = await startBusy(user);
  const { manager } = busy;
  const perCpu: number[] = [];
  const accepted = await repeated(async () => {
    const before = manager.cpu();
    const rate = await accept(busy);
    perCpu.push((rate * SECONDS) / (manager.cpu() - before));
    return rate;
  });
  return { accepted, acceptedPerCpu: median(perCpu) };
}

async function amongFewAndMany(user: BenchUser) {
  await using base = await startJobManager(user, BUSY, { settings: ONE_CORE });
  await base.manager.stop();
  const from = base.manager.directory;
  await fillWithJobs(FEW, from, BUSY.name);
  await using few = await startBusy(user, from);
  await fillWithJobs(MANY - FEW, from, BUSY.name);
  await using many = await startBusy(user, from);

  const requests = [{ method: 'GET', path: `/system/jobs/${BUSY.name}` }];
  const list = ({ manager: { url } }: JobManager) => throughput({ url, as: user.as, requests, seconds: SECONDS });
  const listed = await interleaved(
    () => list(few),
    () => list(many),
  );
  const accepted = await interleaved(
    () => accept(few),
    () => accept(many),
  );
  return { list: listed.first, listGrown: listed.ratio * 100, acceptedGrown: accepted.ratio * 100 };
}

async function startBusy(user: BenchUser, from?: string): Promise<JobManager> {
  const scene = await startJobManager(user, BUSY, { settings: ONE_CORE, ...(from !== undefined && { from }) });
  const first = await scene.outside.submit(scene.token, BUSY.name, '{}');
  await scene.outside.running(user.as, BUSY.name, first);
  return {
    ...scene,
    async [Symbol.asyncDispose]() {
      // Its script would go on without the manager.
      await scene.outside.call('DELETE', `/system/services/${BUSY.name}`, { as: user.as });
      await scene[Symbol.asyncDispose]();
    },
  };
}

function accept({ manager: { url }, token }: JobManager): Promise<number> {
  const requests = [{ method: 'POST', path: `/job/${BUSY.name}`, body: '{}' }];
  return throughput({ url, as: token, requests, connections: IN_FLIGHT, seconds: SECONDS });
}
