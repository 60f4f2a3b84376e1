import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { HttpClient } from '../../lib/http/index.ts';
import { backoffDelay } from '../../lib/retry.ts';
import { ClientError } from '../client/errors.ts';

const LAUNCHER = fileURLToPath(new URL('../../../bin/oscar.js', import.meta.url));

/** A manager needs up to 8 s to stop. */
const STOP_MS = 12_000;

const RESTART_DELAYS = { first: 500, longest: 30_000 };

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
  /** Ends in a row, each soon after the start. */
  #failures = 0;
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
    this.#failures = upMs > STEADY_MS ? 1 : this.#failures + 1;
    const wait = backoffDelay(this.#failures, RESTART_DELAYS);
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

const HEALTH = { method: 'GET', deadline: 2_000, maxBytes: 10_000 };

async function isHealthy(endpoint: string): Promise<boolean> {
  const client = new HttpClient({ verify: true, keepAlive: 0 });
  return client.send({ ...HEALTH, url: `${endpoint}/health` }).then(
    ({ status }) => status === 200,
    () => false,
  );
}

/** Why the scripts of a running manager are not isolated; undefined if they are, or run in containers. */
export async function readIsolationProblem(endpoint: string, password: string): Promise<string | undefined> {
  const client = new HttpClient({ verify: true, keepAlive: 0 });
  const authorization = `Basic ${Buffer.from(`oscar:${password}`).toString('base64')}`;
  const answer = await client.send({ ...HEALTH, url: `${endpoint}/system/info`, headers: { authorization } });
  const { isolation } = JSON.parse(answer.body.toString()) as { isolation?: { namespaces: boolean; reason?: string } };
  return isolation?.namespaces === false ? (isolation.reason ?? 'unknown') : undefined;
}
