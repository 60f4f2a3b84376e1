import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Kills the registered processes when the test process ends, even if that is killed: then the pipe to its standard
 * input closes.
 */
const WATCHDOG =
  'pids=""; while read -r pid; do pids="$pids $pid"; done; [ -z "$pids" ] || kill -KILL $pids 2>/dev/null';

/** How many characters of each log a failure shows. */
const TAIL = 4_000;

export interface Started {
  readonly name: string;
  readonly child: ChildProcess;
  readonly log: string;
}

/** Runs programs that end with the test at the latest. */
export class Processes {
  readonly #directory: string;
  readonly #enter: readonly string[];
  readonly #started: Started[] = [];
  readonly #watchdog: ChildProcess;

  /** `enter` is the prefix of every command, such as `nsenter …`. */
  constructor(directory: string, enter: readonly string[] = []) {
    this.#directory = directory;
    this.#enter = enter;
    // In a separate session: a signal that interrupts the tests must not end the watchdog first.
    this.#watchdog = spawn('sh', ['-c', WATCHDOG], { stdio: ['pipe', 'ignore', 'ignore'], detached: true });
    this.#watchdog.unref();
    // The open pipe must not keep the test process alive.
    (this.#watchdog.stdin as unknown as { unref?: () => void } | null)?.unref?.();
  }

  start(name: string, command: string, args: readonly string[]): Started {
    const log = join(this.#directory, `${name}.log`);
    const [program, ...before] = [...this.#enter, command];
    const child = spawn(program, [...before, ...args], { stdio: ['ignore', 'pipe', 'pipe'], env: environment() });
    const file = createWriteStream(log, { flags: 'a' });
    child.stdout?.pipe(file, { end: false });
    child.stderr?.pipe(file, { end: false });
    child.once('exit', () => file.end());
    if (child.pid !== undefined) this.#watchdog.stdin?.write(`${child.pid}\n`);
    const started = { name, child, log };
    this.#started.push(started);
    return started;
  }

  async stop(): Promise<void> {
    await this.killAll();
    this.#watchdog.kill('SIGKILL');
  }

  /** Kills in reverse order of start, because later programs depend on earlier ones. */
  async killAll(): Promise<void> {
    for (const { child } of this.#started.toReversed()) {
      if (isRunning(child)) await end(child);
    }
  }

  /** The ends of all logs, for the message of a failure. */
  logs(): string {
    return this.#started.map(({ name, log }) => `--- ${name} (${log})\n${tailOf(log)}`).join('\n');
  }
}

/**
 * All servers are local, so proxies are removed from the environment. Some programs are in directories that are only in
 * root's PATH.
 */
export function environment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !/_proxy$/i.test(name));
  return { ...Object.fromEntries(kept), PATH: `${process.env['PATH']}:/usr/local/sbin:/usr/sbin:/sbin` };
}

export function isRunning(child: ChildProcess): boolean {
  return child.exitCode === null && child.signalCode === null;
}

/** Uses SIGKILL: there is no state to save. */
export async function end(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

function tailOf(file: string): string {
  try {
    return readFileSync(file, 'utf8').slice(-TAIL);
  } catch {
    return '(no log)';
  }
}
