import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Ends what it was told of as soon as nobody is there any more who could: also when this process is killed. */
const WATCHDOG =
  'pids=""; while read -r pid; do pids="$pids $pid"; done; [ -z "$pids" ] || kill -KILL $pids 2>/dev/null';

/** How much of a log a failure shows. */
const TAIL = 4_000;

export interface Started {
  readonly name: string;
  readonly child: ChildProcess;
  readonly log: string;
}

/** Programs that run for as long as a test needs them, and not longer than it. */
export class Processes {
  readonly #directory: string;
  readonly #enter: readonly string[];
  readonly #started: Started[] = [];
  readonly #watchdog: ChildProcess;

  /** `enter` is a command that becomes the one after it, somewhere else: `nsenter …`. */
  constructor(directory: string, enter: readonly string[] = []) {
    this.#directory = directory;
    this.#enter = enter;
    // In a session of its own: what interrupts the tests must not end it first.
    this.#watchdog = spawn('sh', ['-c', WATCHDOG], { stdio: ['pipe', 'ignore', 'ignore'], detached: true });
    this.#watchdog.unref();
    // A pipe that keeps the test process waiting would be a test that never ends.
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

  /** The last first: what others stand on goes after them. */
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

/** What tests start is near: no proxy reaches it. What it starts in its turn may be where only root looks. */
export function environment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !/_proxy$/i.test(name));
  return { ...Object.fromEntries(kept), PATH: `${process.env['PATH']}:/usr/local/sbin:/usr/sbin:/sbin` };
}

export function isRunning(child: ChildProcess): boolean {
  return child.exitCode === null && child.signalCode === null;
}

/** Nothing here has anything to lose, so nobody is asked twice. */
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
