import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, cpSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { get } from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { type CpuTimes, cpuSeconds, cpuTimes } from './cpu-time.ts';

const root = join(import.meta.dirname, '..', '..');

/** How long between two looks at a manager that is starting: the most that a start can seem longer than it is. */
const LOOK_EVERY_MS = 2;

/** A start that takes this long has failed. */
const START_DEADLINE_MS = 20_000;

export interface ManagerOptions {
  /** Environment variables of its own. */
  readonly settings?: Readonly<Record<string, string>>;
  /** A data directory to begin with, which is copied; an empty one if left out. */
  readonly from?: string;
  /** What Node runs, from the root of the repository. */
  readonly program?: readonly string[];
  /** Where it listens; a free one if left out. */
  readonly port?: number;
}

export interface ManagerProcess extends AsyncDisposable {
  readonly url: string;
  readonly directory: string;
  /** Milliseconds from its spawning to the first 200 of `/health`. */
  readonly startedIn: number;
  /** The megabytes of it that are in memory. */
  memory(): number;
  /** The seconds of CPU that it has used. */
  cpu(): number;
  /** The same, beside that of the processes it has started. */
  cpuTimes(): CpuTimes;
  stop(): Promise<void>;
}

/**
 * A manager in a process of its own, as `npm start` runs it and with the settings it has by default, its log included:
 * that goes to a file. It listens on a free port of loopback.
 */
export async function startManagerProcess(options: ManagerOptions = {}): Promise<ManagerProcess> {
  const { settings = {}, from, program = ['bin/oscar.js', 'serve'], port = await freePort() } = options;
  const directory = mkdtempSync(join(tmpdir(), 'oscar-bench-'));
  if (from !== undefined) cpSync(from, directory, { recursive: true });
  const url = `http://127.0.0.1:${port}`;
  const logFile = join(directory, 'bench.log');
  const log = openSync(logFile, 'a');
  const env = {
    PATH: process.env['PATH'],
    OSCAR_DATA_DIR: directory,
    OSCAR_STORE_PORT: '0',
    OSCAR_LOCAL_RUNTIME: 'process',
    OSCAR_DISK_FLOOR: '0',
    // Scripts of tests write to directories of the test, which are there.
    OSCAR_LOCAL_SHARED: tmpdir(),
    OSCAR_ALLOW_UNISOLATED_SCRIPTS: 'true',
    OSCAR_LISTEN: `127.0.0.1:${port}`,
    ...settings,
  };

  const begun = performance.now();
  const child = spawn(process.execPath, program, { cwd: root, env, stdio: ['ignore', log, log] });
  closeSync(log);
  const stop = () => end(child);
  const dispose = async () => {
    await stop();
    rmSync(directory, { recursive: true, force: true });
  };
  try {
    await healthy(url, child);
  } catch (cause) {
    const said = readFileSync(logFile, 'utf8');
    await dispose();
    throw new Error(`there is no manager to measure; it said:\n${said}`, { cause });
  }
  return {
    url,
    directory,
    startedIn: performance.now() - begun,
    memory: () => residentMegabytes(child.pid),
    cpu: () => cpuSeconds(pidOf(child)),
    cpuTimes: () => cpuTimes(pidOf(child)),
    stop,
    [Symbol.asyncDispose]: dispose,
  };
}

function pidOf({ pid }: ChildProcess): number {
  if (pid === undefined) throw new Error('the manager was never started');
  return pid;
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGTERM');
  await once(child, 'exit');
}

async function healthy(url: string, child: ChildProcess): Promise<void> {
  const deadline = performance.now() + START_DEADLINE_MS;
  while (!(await isUp(url))) {
    if (child.exitCode !== null) throw new Error(`the manager ended with code ${child.exitCode}`);
    if (performance.now() > deadline) throw new Error(`the manager is not up after ${START_DEADLINE_MS} ms`);
    await pause(LOOK_EVERY_MS);
  }
}

function isUp(url: string): Promise<boolean> {
  return new Promise((resolve) => {
    const request = get(`${url}/health`, { agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    request.once('error', () => resolve(false));
  });
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (typeof address !== 'object' || address === null) throw new Error('there is no free port');
  return address.port;
}

function residentMegabytes(pid: number | undefined): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1];
  if (kilobytes === undefined) throw new Error('the manager has no memory: has it ended?');
  return (Number(kilobytes) * 1024) / 1e6;
}
