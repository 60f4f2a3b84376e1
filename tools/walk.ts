import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { CREATE, DELEGATED_JOB, JOB, type Walk } from '../test/support/walks.ts';
import { FunctionCoverage, type Functions, filesOfFunctions, functionsOfProcesses } from './function-coverage.ts';

/**
 * Counts the files of `src` that one request executes functions of: the files that a developer reads to follow it.
 * `npm run walk` prints the counts, `npm run walk -- --files` the files too.
 */

const SRC = join(import.meta.dirname, '../src');

/** Managers have timers, the most frequent every five seconds. With more requests, it is less likely that one runs during each. */
const ROUNDS = 5;

/**
 * A request is over when no new function has run for this long. A shorter value may miss its last steps; with a longer one
 * a timer is more likely to run meanwhile.
 */
const QUIET_MS = 1_000;
const SLICE_MS = 100;

const { values } = parseArgs({ options: { files: { type: 'boolean', default: false } } });

process.stdout.write(`Number of files in src with at least one function that the request executes. A function counts if it ran for
each of ${ROUNDS} requests, made one after another to managers that had already answered one; or if it ran for a job in one of
the processes with which a manager starts scripts and moves files. Loading a module does not count.

`);

await using coverage = await FunctionCoverage.start(SRC);
const create = await follow(CREATE);
report(CREATE, create.manager);
for (const walk of [JOB, DELEGATED_JOB]) {
  const { manager, processes } = await follow(walk);
  // The processes of the first walk ran no job: what they executed belongs to their start.
  report(walk, manager.union(processes.difference(create.processes)));
}

interface Followed {
  /** What ran in this process, where the managers are. */
  readonly manager: Functions;
  /** What ran in the processes that the managers started, since their start. */
  readonly processes: Functions;
}

async function follow(walk: Walk): Promise<Followed> {
  const reports = mkdtempSync(join(tmpdir(), 'oscar-walk-'));
  process.env['NODE_V8_COVERAGE'] = reports;
  try {
    const rounds = await requests(walk);
    const manager = rounds.reduce((common, round) => common.intersection(round));
    return { manager, processes: functionsOfProcesses(reports, SRC) };
  } finally {
    rmSync(reports, { recursive: true });
  }
}

async function requests(walk: Walk): Promise<Functions[]> {
  await using scene = await walk.start();
  await scene.request(0);
  await settled();
  const rounds: Functions[] = [];
  for (let number = 1; number <= ROUNDS; number++) {
    await scene.request(number);
    rounds.push(await settled());
  }
  return rounds;
}

/** Waits until the request is over. Resolves to the functions that ran since the last call. */
async function settled(): Promise<Functions> {
  let seen = await coverage.take();
  for (let quiet = 0; quiet < QUIET_MS; quiet += SLICE_MS) {
    await pause(SLICE_MS);
    const more = await coverage.take();
    if (!more.isSubsetOf(seen)) quiet = 0;
    seen = seen.union(more);
  }
  return seen;
}

function report({ name, description }: Walk, functions: Functions): void {
  const files = filesOfFunctions(functions);
  process.stdout.write(`${name.padEnd(15)}${String(files.length).padStart(4)}  ${description}\n`);
  if (!values.files) return;
  for (const [folder, those] of Map.groupBy(files, dirname)) {
    process.stdout.write(`  ${folder}/ ${those.map((file) => basename(file, '.ts')).join(' ')}\n`);
  }
}
