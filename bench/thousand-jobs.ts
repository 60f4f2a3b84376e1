import { statSync } from 'node:fs';
import { join } from 'node:path';
import { Meeting } from '../test/support/jobs.ts';
import type { Figure, Measured } from './support/benchmark.ts';
import { connect } from './support/connection.ts';
import {
  endedWell,
  idle,
  type JobManager,
  NO_FILES,
  scriptService,
  startJobManager,
  type TimedJob,
  timeOf,
  turnOf,
} from './support/job-manager.ts';
import { median } from './support/statistics.ts';
import { CONNECTIONS } from './support/throughput.ts';
import { type BenchUser, startUser } from './support/user.ts';

export const description = 'jobs that do next to nothing, ten at a time, and where their time goes';

export const figures = {
  rate: { what: '1,000 jobs that do nothing, from first accepted to last ended', unit: '/s' },
  waiting: { what: '… waiting for its turn, median', unit: 'ms' },
  beginning: { what: '… from its turn to its script, median', unit: 'ms' },
  script: { what: '… its script, median', unit: 'ms' },
  rest: { what: '… from its end to the turn of the next, mean', unit: 'ms' },
  managerCpu: { what: '… CPU of the manager, each', unit: 'ms' },
  workersCpu: { what: '… CPU of the workers, each', unit: 'ms' },
  scriptsCpu: { what: '… CPU of wrapper and script, each', unit: 'ms' },
  fileRate: { what: '300 uploads of 4 KB, from first job accepted to last result', unit: '/s' },
  fileWaiting: { what: '… waiting for its turn, median', unit: 'ms' },
  fileBeginning: { what: '… from its turn to its script, the input fetched, median', unit: 'ms' },
  fileScript: { what: '… its script, median', unit: 'ms' },
  fileDelivering: { what: '… uploading its result, median', unit: 'ms' },
  fileRest: { what: '… from its end to the turn of the next, mean', unit: 'ms' },
  fileManagerCpu: { what: '… CPU of the manager, its object store included, each', unit: 'ms' },
  fileWorkersCpu: { what: '… CPU of the workers, each', unit: 'ms' },
  fileScriptsCpu: { what: '… CPU of wrapper and script, each', unit: 'ms' },
} satisfies Record<string, Figure>;

const JOBS = 1_000;
const UPLOADS = 300;

/** First ones that do not count: they warm up. */
const WARM_UP = 30;

/** As many fit into two cores. */
const AT_ONCE = 10;
const settings = { OSCAR_LOCAL_CPU: '2' };

/** Rarely: the looks cost the manager time too. */
const LOOK_EVERY_MS = 250;

export async function run(): Promise<Measured<typeof figures>> {
  await using user = await startUser();
  return { ...(await plainJobs(user)), ...(await uploads(user)) };
}

async function plainJobs(user: BenchUser) {
  const service = scriptService('nothing', ':', NO_FILES);
  await using scene = await startJobManager(user, service, { settings });
  const submit = async (count: number) => {
    using closing = new DisposableStack();
    const connections = Array.from({ length: CONNECTIONS }, () => closing.use(connect(scene.manager.url, scene.token)));
    const call = { method: 'POST', path: `/job/${service.name}`, body: '{}' };
    await shareOut(count, (_, connection) => connections[connection]?.call(call));
  };
  const { jobs, cpu } = await measure(scene, user.as, service.name, submit, JOBS);
  return {
    rate: rateOf(jobs),
    ...coursesOf(jobs),
    script: median(jobs.map((job) => timeOf(job.finished_at) - timeOf(job.started_at))),
    managerCpu: cpu.own,
    workersCpu: cpu.children,
    scriptsCpu: cpu.ended,
  };
}

async function uploads(user: BenchUser) {
  using meeting = new Meeting();
  // The mark costs no process, and its time is that of its file, which Linux rounds down by up to 4 ms.
  const script = `cp "$INPUT_FILE_PATH" "$TMP_OUTPUT_DIR"\n: >"${meeting.directory}/$JOB_UUID"`;
  const service = scriptService('copy', script);
  await using scene = await startJobManager(user, service, { settings });
  const body = 'x'.repeat(4096);
  let made = 0;
  const submit = (count: number) =>
    shareOut(count, () => scene.outside.put(user.as, `${service.name}/in/${made++}.txt`, body));
  const { jobs, cpu } = await measure(scene, user.as, service.name, submit, UPLOADS);
  const { waiting, beginning, rest } = coursesOf(jobs);
  const scriptEnd = ({ id }: TimedJob) => statSync(join(meeting.directory, id)).mtimeMs;
  return {
    fileRate: rateOf(jobs),
    fileWaiting: waiting,
    fileBeginning: beginning,
    fileScript: median(jobs.map((job) => scriptEnd(job) - timeOf(job.started_at))),
    fileDelivering: median(jobs.map((job) => timeOf(job.finished_at) - scriptEnd(job))),
    fileRest: rest,
    fileManagerCpu: cpu.own,
    fileWorkersCpu: cpu.children,
    fileScriptsCpu: cpu.ended,
  };
}

/** The jobs that count, and milliseconds of CPU for each of them. */
async function measure(
  scene: JobManager,
  as: string,
  name: string,
  submit: (count: number) => Promise<void>,
  count: number,
) {
  await submit(WARM_UP);
  await allEnded(scene, as, name, WARM_UP);
  const before = scene.manager.cpuTimes();
  await submit(count);
  await allEnded(scene, as, name, WARM_UP + count);
  const after = scene.manager.cpuTimes();
  const each = (used: number) => (used * 1_000) / count;
  const jobs = (await endedWell(scene, as, name)).slice(WARM_UP);
  return {
    jobs,
    cpu: {
      own: each(after.own - before.own),
      children: each(after.children - before.children),
      ended: each(after.ended - before.ended),
    },
  };
}

/** An upload becomes a job a moment later, so that they are counted too. */
async function allEnded(scene: JobManager, as: string, name: string, count: number): Promise<void> {
  do await idle(scene, as, name, LOOK_EVERY_MS);
  while ((await scene.outside.jobs(as, name)).length < count);
}

async function shareOut(count: number, work: (n: number, connection: number) => Promise<unknown> | undefined) {
  let next = 0;
  const worker = async (_: unknown, connection: number) => {
    while (next < count) await work(next++, connection);
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, worker));
}

const secondsOf = (jobs: readonly TimedJob[]) => {
  const begun = Math.min(...jobs.map((job) => timeOf(job.accepted_at)));
  const ended = Math.max(...jobs.map((job) => timeOf(job.finished_at)));
  return (ended - begun) / 1_000;
};

const rateOf = (jobs: readonly TimedJob[]) => jobs.length / secondsOf(jobs);

/** While all places are taken, each job has its place for so long; what its record does not tell of is the rest. */
function coursesOf(jobs: readonly TimedJob[]) {
  const told = jobs.map((job) => timeOf(job.finished_at) - turnOf(job));
  const place = (secondsOf(jobs) * 1_000 * AT_ONCE) / jobs.length;
  return {
    waiting: median(jobs.map((job) => turnOf(job) - timeOf(job.accepted_at))),
    beginning: median(jobs.map((job) => timeOf(job.started_at) - turnOf(job))),
    rest: place - told.reduce((sum, ms) => sum + ms, 0) / jobs.length,
  };
}
