import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { PASSWORD } from './manager.ts';

const MAIN = fileURLToPath(new URL('../../bin/oscar.js', import.meta.url));

export interface ManagerProcess {
  readonly child: ChildProcess;
  /** Its output so far. */
  readonly output: () => string;
  /** Its address, once it listens. */
  readonly listening: Promise<string>;
  /** Its exit code, or the signal that ended it. */
  readonly ended: Promise<number | string>;
}

/**
 * `oscar serve` as a process that can be killed and does not outlive the test. `enter` is a command prefix that executes
 * the rest in another environment: `nsenter …`.
 */
export function startProcess(
  t: Pick<TestContext, 'after'>,
  directory: string,
  settings: Record<string, string> = {},
  args: readonly string[] = [],
  enter: readonly string[] = [],
): ManagerProcess {
  const env = {
    PATH: process.env['PATH'],
    OSCAR_DATA_DIR: directory,
    OSCAR_LISTEN: '127.0.0.1:0',
    OSCAR_STORE_PORT: '0',
    OSCAR_LOCAL_RUNTIME: 'process',
    OSCAR_DISK_FLOOR: '0',
    // Scripts of tests write to directories of the test, which are there.
    OSCAR_LOCAL_SHARED: tmpdir(),
    OSCAR_ALLOW_UNISOLATED_SCRIPTS: 'true',
    OSCAR_PASSWORD: PASSWORD,
    ...settings,
  };
  const [program = process.execPath, ...words] = [...enter, process.execPath, MAIN, 'serve', ...args];
  const child = spawn(program, words, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  t.after(() => child.kill('SIGKILL'));
  let output = '';
  const ended = once(child, 'close').then(([code, signal]) => (code ?? signal) as number | string);
  const listening = new Promise<string>((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        output += text;
        const address = /"address":"([^"]+)"/.exec(output)?.[1];
        if (address !== undefined) resolve(address);
      });
    }
    void ended.then((code) => reject(new Error(`ended with ${code}: ${output}`)));
  });
  // A caller that awaits it gets the error; otherwise an early exit is not an unhandled rejection.
  listening.catch(() => undefined);
  return { child, output: () => output, listening, ended };
}
