import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Meeting } from '../test/support/jobs.ts';
import type { Figure, Measured } from './support/benchmark.ts';
import { connect } from './support/connection.ts';
import {
  type Definition,
  endedWell,
  idle,
  type JobManager,
  NO_FILES,
  scriptService,
  startJobManager,
  timeOf,
} from './support/job-manager.ts';
import { sideBySide } from './support/side-by-side.ts';
import { median, percentile } from './support/statistics.ts';
import { type BenchUser, startUser } from './support/user.ts';

export const description = 'from a call or an upload to the script and its result, one job at a time';

export const figures = {
  firstLine: {
    what: 'job accepted to first line of its script, median',
    unit: 'ms',
    reach: ['<', 50],
    goManager: '4.6 s (smallest Job of Kubernetes)',
  },
  firstLineSlow: { what: '… 95th percentile', unit: 'ms' },
  firstLineCold: { what: '… first job of a manager that has just started', unit: 'ms' },
  answered: { what: '`POST /job` answered, median', unit: 'ms' },
  upload: { what: 'upload of 4 KB to its result in the bucket, median', unit: 'ms' },
  uploadSlow: { what: '… 95th percentile', unit: 'ms' },
  uploadPut: { what: '… of that until the upload is answered, median', unit: 'ms' },
  run: { what: '`/run` of `cat`, median', unit: 'ms' },
  runBare: { what: '… spawning the shell for it, median', unit: 'ms' },
  runAdded: { what: '… added to that', unit: 'ms', reach: ['<', 30] },
} satisfies Record<string, Figure>;

/** One after the other; the first ones warm up and do not count. */
const TURNS = { warm: 110, uploads: 55, runs: 165 };
const UNCOUNTED = 1 / 10;

/** Managers whose first job is looked at. */
const STARTS = 5;

/** The most by which a result seems later than it is. Each look is a request that the store answers. */
const LOOK_EVERY_MS = 4;

export async function run(): Promise<Measured<typeof figures>> {
  await using user = await startUser();
  return { ...(await toFirstLine(user)), ...(await toResult(user)), ...(await runBesideSpawn(user)) };
}

async function toFirstLine(user: BenchUser) {
  using meeting = new Meeting();
  const service = scriptService('first-line', `date +%s%N >"${meeting.directory}/$JOB_UUID"`, NO_FILES);
  await using base = await startJobManager(user, service);
  await base.manager.stop();
  const from = base.manager.directory;

  const cold: number[] = [];
  for (let start = 0; start < STARTS; start++) {
    await using fresh = await startJobManager(user, service, { from });
    const { delays } = await firstLines(fresh, user.as, service, meeting, 1);
    cold.push(...delays);
  }
  await using warm = await startJobManager(user, service, { from });
  const { delays, answers } = await firstLines(warm, user.as, service, meeting, TURNS.warm);
  return {
    firstLine: median(counted(delays)),
    firstLineSlow: percentile(counted(delays), 95),
    firstLineCold: median(cold),
    answered: median(counted(answers)),
  };
}

/** Milliseconds from `acceptedAt` of each to what its script took for the time; both are of the same clock. */
async function firstLines(
  scene: JobManager,
  as: string,
  { name }: Definition,
  meeting: Meeting,
  turns: number,
): Promise<{ delays: number[]; answers: number[] }> {
  using connection = connect(scene.manager.url, scene.token);
  const answers: number[] = [];
  for (let turn = 0; turn < turns; turn++) {
    answers.push(await connection.call({ method: 'POST', path: `/job/${name}`, body: '{"turn":1}' }));
    await idle(scene, as, name);
  }
  const jobs = await endedWell(scene, as, name);
  const delays = jobs.map(({ id, accepted_at }) => {
    const nanoseconds = Number(readFileSync(join(meeting.directory, id), 'utf8'));
    return nanoseconds / 1e6 - timeOf(accepted_at);
  });
  return { delays, answers };
}

async function toResult(user: BenchUser) {
  const { as } = user;
  const service = scriptService('upload', 'cp "$INPUT_FILE_PATH" "$TMP_OUTPUT_DIR"');
  await using scene = await startJobManager(user, service);
  const { outside } = scene;
  const body = 'x'.repeat(4096);
  const puts: number[] = [];
  const results: number[] = [];
  for (let turn = 0; turn < TURNS.uploads; turn++) {
    const begun = performance.now();
    await outside.put(as, `upload/in/${turn}.txt`, body);
    puts.push(performance.now() - begun);
    while ((await outside.get(as, `upload/out/${turn}.txt`)) === undefined) await pause(LOOK_EVERY_MS);
    results.push(performance.now() - begun);
    await idle(scene, as, service.name);
  }
  await endedWell(scene, as, service.name);
  return {
    upload: median(counted(results)),
    uploadSlow: percentile(counted(results), 95),
    uploadPut: median(counted(puts)),
  };
}

async function runBesideSpawn(user: BenchUser) {
  const service = scriptService('echo', 'cat "$INPUT_FILE_PATH"', NO_FILES);
  await using scene = await startJobManager(user, service);
  const path = `/run/${service.name}`;
  const body = '{"said":"as it is"}';
  const { text } = await scene.outside.call('POST', path, { as: scene.token, body });
  assert.equal(text, body);
  using connection = connect(scene.manager.url, scene.token);
  const { median: ours, bare } = await sideBySide(
    TURNS.runs,
    () => connection.call({ method: 'POST', path, body }),
    () => spawnCat(body),
  );
  return { run: ours, runBare: bare, runAdded: ours - bare };
}

async function spawnCat(body: string): Promise<void> {
  const child = spawn('/bin/sh', ['-c', 'cat'], { stdio: ['pipe', 'pipe', 'ignore'] });
  const closed = once(child, 'close');
  child.stdin.end(body);
  let said = '';
  for await (const chunk of child.stdout) said += String(chunk);
  await closed;
  assert.equal(said, body);
}

const counted = (times: readonly number[]) => times.slice(Math.floor(times.length * UNCOUNTED));
