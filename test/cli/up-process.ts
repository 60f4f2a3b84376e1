import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const MAIN = fileURLToPath(new URL('../../bin/oscar.js', import.meta.url));
const EXAMPLES = fileURLToPath(new URL('../../examples', import.meta.url));

/** A directory as somebody has it who has cloned the project, with a home that is nobody's. */
export function newClone(): string {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-clone-'));
  cpSync(EXAMPLES, join(directory, 'examples'), { recursive: true });
  return directory;
}

export const environment = (directory: string) => ({
  PATH: process.env['PATH'],
  HOME: directory,
  NO_COLOR: '1',
  OSCAR_LOCAL_RUNTIME: 'process',
  OSCAR_DISK_FLOOR: '0',
  // Scripts of tests write to directories of the test, which are there.
  OSCAR_LOCAL_SHARED: tmpdir(),
});

/** `oscar up`, which can be interrupted and killed, and does not outlive the test. */
export class UpProcess {
  readonly child: ChildProcess;
  readonly ended: Promise<number | string>;
  /** Rejects if it ends before. */
  readonly isUp: Promise<void>;
  #output = '';

  constructor(directory: string, args: readonly string[]) {
    const surroundings = { cwd: directory, env: environment(directory) };
    const child = spawn(process.execPath, [MAIN, 'up', ...args], surroundings);
    child.stdin.end();
    this.child = child;
    this.ended = once(child, 'close').then(([code, signal]) => (code ?? signal) as number | string);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.isUp = promise;
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.#output += text;
        if (this.#output.includes('Up after')) resolve();
      });
    }
    void this.ended.then((code) => reject(new Error(`ended with ${code}: ${this.#output}`)));
    promise.catch(() => undefined);
  }

  get output(): string {
    return this.#output;
  }

  /** As Ctrl-C does. */
  async interrupt(): Promise<number | string> {
    this.child.kill('SIGINT');
    return this.ended;
  }
}

export const removeClone = (directory: string) => rmSync(directory, { recursive: true, force: true });
