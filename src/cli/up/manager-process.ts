import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { get } from 'node:http';
import { dirname } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { ClientError } from '../client/errors.ts';

const LAUNCHER = fileURLToPath(new URL('../../../bin/oscar.js', import.meta.url));

/** A manager needs up to 8 s to stop. */
const STOP_MS = 12_000;

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 30_000;

/** A manager that ran this long starts again without a longer back-off. */
const STEADY_MS = 60_000;

/** How long a manager may take to start. A cold start on a busy machine takes seconds. */
const READY_MS = 60_000;
const POLL_MS = 40;

export interface ManagerOptions {
  readonly id: string;
  readonly endpoint: string;
  readonly env: NodeJS.ProcessEnv;
  readonly logFile: string;
  /** Prints a line for the user. */
  readonly notify: (line: string) => void;
}

/** `oscar serve` as a child process that is restarted when it dies and stops when its parent ends. */
export class ManagerProcess {
  readonly #options: ManagerOptions;
  #child: ChildProcess | undefined;
  #ended: Promise<unknown> = Promise.resolve();
  #stopping = false;
  /** A manager that never started is not restarted. */
  #wasUp = false;
  #wait = FIRST_WAIT_MS;
  readonly #abort = new AbortController();

  constructor(options: ManagerOptions) {
    this.#options = options;
  }

  start(): void {
    const { env, logFile } = this.#options;
    mkdirSync(dirname(logFile), { recursive: true });
    const log = openSync(logFile, 'a', 0o600);
    // In its own process group, so that Ctrl-C reaches only `oscar up`. The channel closes when `oscar up` ends.
    const child = spawn(process.execPath, [LAUNCHER, 'serve'], {
      env,
      stdio: ['ignore', log, log, 'ipc'],
      detached: true,
    });
    closeSync(log);
    this.#child = child;
    const startedAt = Date.now();
    this.#ended = once(child, 'close');
    child.once('close', (code, signal) => {
      if (this.#wasUp && !this.#stopping) void this.#restart(signal ?? `code ${code}`, Date.now() - startedAt);
    });
    child.on('error', () => undefined);
  }

  /** Resolves when it answers. If it ends before that, rejects with the end of its log. */
  async ready(): Promise<void> {
    const deadline = Date.now() + READY_MS;
    const first = this.#child;
    while (Date.now() < deadline) {
      if (await isHealthy(this.#options.endpoint)) {
        this.#wasUp = true;
        return;
      }
      if (first?.exitCode !== null || first.signalCode !== null) break;
      await pause(POLL_MS);
    }
    const { id, logFile } = this.#options;
    const last = readFileSync(logFile, 'utf8').trimEnd().split('\n').slice(-5).join('\n');
    throw new ClientError('failed', `${id} failed to start:\n${last}\n(full log: ${logFile})`);
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    this.#abort.abort();
    this.#child?.kill('SIGTERM');
    const cut = setTimeout(() => this.kill(), STOP_MS);
    await this.#ended;
    clearTimeout(cut);
  }

  kill(): void {
    this.#stopping = true;
    this.#child?.kill('SIGKILL');
  }

  async #restart(why: string, upMs: number): Promise<void> {
    const { id, notify: tell } = this.#options;
    if (upMs > STEADY_MS) this.#wait = FIRST_WAIT_MS;
    const wait = this.#wait;
    this.#wait = Math.min(wait * 2, LONGEST_WAIT_MS);
    tell(`${id} ended (${why}): restarting in ${wait / 1000} s`);
    try {
      await pause(wait, undefined, { signal: this.#abort.signal });
    } catch {
      return;
    }
    this.start();
    await this.ready().then(
      () => tell(`${id} is running again`),
      () => undefined,
    );
  }
}

async function isHealthy(endpoint: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  get(`${endpoint}/health`, { agent: false, timeout: 2_000 }, (answer) => {
    answer.resume();
    resolve(answer.statusCode === 200);
  })
    .on('timeout', () => resolve(false))
    .on('error', () => resolve(false));
  return promise;
}
