import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { eventually, Outside, service } from '../support/jobs.ts';
import { lastingPorts } from '../support/lasting-port.ts';
import { ADMIN, PASSWORD } from '../support/manager.ts';
import { descendants, stillRunning, type TreeProcess } from '../support/process-tree.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** As a user has it: the Node of the machine, which may be an old one, and nothing that a running npm has added. */
const PATH = (process.env['PATH'] ?? '')
  .split(delimiter)
  .filter((folder) => !folder.includes('node_modules'))
  .join(delimiter);

const basic = (password: string) => `Basic ${Buffer.from(`oscar:${password}`).toString('base64')}`;

/** A command that starts managers, with everything below it. */
class Started {
  readonly child: ChildProcess;
  readonly directory: string;
  #output = '';

  constructor(t: TestContext, command: readonly string[], directory: string, settings: Record<string, string>) {
    this.directory = directory;
    const [program = '', ...args] = command;
    const env = {
      PATH,
      HOME: directory,
      NO_COLOR: '1',
      npm_config_update_notifier: 'false',
      OSCAR_LOCAL_RUNTIME: 'process',
      OSCAR_DISK_FLOOR: '0',
      // Scripts of tests write to directories of the test, which are there.
      OSCAR_LOCAL_SHARED: tmpdir(),
      ...settings,
    };
    const child = spawn(program, args, { cwd: ROOT, env, stdio: ['pipe', 'pipe', 'pipe'] });
    this.child = child;
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.#output += text;
      });
    }
    t.after(() => {
      for (const { pid } of stillRunning(this.processes())) process.kill(pid, 'SIGKILL');
      child.kill('SIGKILL');
      rmSync(directory, { recursive: true, force: true });
    });
  }

  get hasEnded(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  get output(): string {
    return this.#output;
  }

  #seen: TreeProcess[] = [];

  /** Everything that it has started so far and that anybody has looked at. */
  processes(): TreeProcess[] {
    const now = descendants(this.child.pid ?? 0);
    const known = new Set(this.#seen.map(({ pid, startedAt }) => `${pid} ${startedAt}`));
    this.#seen = [...this.#seen, ...now.filter(({ pid, startedAt }) => !known.has(`${pid} ${startedAt}`))];
    return this.#seen;
  }

  /** Resolves once this manager has run a script, so that the processes that jobs need are there too. */
  async hasRun(url: string, as: string): Promise<void> {
    const outside = new Outside(url);
    await eventually(async () => {
      assert.ok(!this.hasEnded, this.output);
      assert.equal((await outside.call('GET', '/health')).status, 200);
    });
    // A manager of a busy machine may answer that it has too much to do, at any of these steps.
    let tries = 0;
    await eventually(async () => {
      const name = `once-${++tries}`;
      const token = await outside.create(as, service(name, 'echo done >"$TMP_OUTPUT_DIR/result"'));
      const id = await outside.submit(token, name, 'go');
      assert.equal((await outside.ended(name, id, as)).state, 'succeeded');
    });
  }

  /** Everything has gone, and nobody listens at these ports. */
  async isGone(ports: readonly number[]): Promise<void> {
    const processes = this.processes();
    const programs = processes.map(({ command }) => command).join('\n');
    assert.match(programs, /staging\/transfers\/worker\.ts/, 'staging workers were started');
    assert.match(programs, /process\/starter-program\.ts/, 'a starter was started');
    await eventually(() => {
      assert.deepEqual(stillRunning(processes), [], this.output);
      assert.ok(this.hasEnded, this.output);
    });
    for (const port of ports) assert.ok(!(await answers(port)), `somebody still listens at ${port}`);
  }
}

async function answers(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

const newDirectory = () => mkdtempSync(join(tmpdir(), 'oscar-npm-'));

/** A federation of two that this command starts, once its first manager has run a script. */
async function federation(
  t: TestContext,
  command: (options: readonly string[]) => readonly string[],
): Promise<[Started, ports: number[]]> {
  const directory = newDirectory();
  const [port = 0] = await lastingPorts(1);
  const data = join(directory, 'data');
  const options = ['--data', data, '--clusters', '2', '--port', String(port)];
  const started = new Started(t, command(options), directory, {});
  await eventually(() => {
    assert.ok(!started.hasEnded, started.output);
    assert.match(started.output, /Up after/);
  });
  const { oscar } = parse(readFileSync(join(data, 'config.yaml'), 'utf8')) as {
    oscar: Record<string, { endpoint: string; auth_password: string }>;
  };
  const managers = Object.values(oscar);
  assert.equal(managers.length, 2);
  await started.hasRun(managers[0]?.endpoint ?? '', basic(managers[0]?.auth_password ?? ''));
  // Two managers, their stores, the shared store, and the issuer.
  const printed = [...started.output.matchAll(/http:\/\/127\.0\.0\.1:(\d+)/g)].map(([, each]) => Number(each));
  const ports = [...new Set(printed)];
  assert.equal(ports.length, 6, started.output);
  return [started, ports];
}

/** One manager that this command starts, once it has run a script. */
async function manager(t: TestContext, command: readonly string[]): Promise<[Started, ports: number[]]> {
  const directory = newDirectory();
  const [port = 0, store = 0] = await lastingPorts(2);
  const settings = {
    OSCAR_DATA_DIR: join(directory, 'data'),
    OSCAR_LISTEN: `127.0.0.1:${port}`,
    OSCAR_STORE_PORT: String(store),
    OSCAR_PASSWORD: PASSWORD,
  };
  const started = new Started(t, command, directory, settings);
  await started.hasRun(`http://127.0.0.1:${port}`, ADMIN);
  return [started, [port, store]];
}

/** A command at a terminal of its own. What is written to its input is typed there; when it is killed, the terminal is gone. */
const atTerminal = (command: string) => ['script', '--quiet', '--flush', '--command', command, '/dev/null'];

describe('npm', { skip: !existsSync('/proc/self/stat') }, () => {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGKILL'] as const) {
    test(`npm start: ${signal} to npm alone stops every process of the federation`, async (t) => {
      const [npm, ports] = await federation(t, (options) => ['npm', 'start', '--', ...options]);
      npm.processes();
      npm.child.kill(signal);
      await npm.isGone(ports);
      assert.ok(!existsSync(join(npm.directory, 'data', 'up.pid')), 'it stopped in order');
    });
  }

  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    test(`npm run serve: ${signal} to npm alone stops the manager in order`, async (t) => {
      const [npm, ports] = await manager(t, ['npm', 'run', 'serve']);
      npm.processes();
      npm.child.kill(signal);
      await npm.isGone(ports);
      await eventually(() => assert.match(npm.output, /"msg":"stopped"/));
    });
  }

  test('npx oscar up: SIGTERM to npx alone stops every process of the federation', async (t) => {
    const [npx, ports] = await federation(t, (options) => ['npx', 'oscar', 'up', ...options]);
    npx.processes();
    npx.child.kill('SIGTERM');
    await npx.isGone(ports);
  });

  test('npm run serve: Ctrl-C at a terminal, which npm sends once more, lets the manager stop in order', async (t) => {
    const [terminal, ports] = await manager(t, atTerminal('npm run serve'));
    terminal.processes();
    terminal.child.stdin?.write('\u0003');
    await terminal.isGone(ports);
    await eventually(() => assert.match(terminal.output, /stopping.*signal=SIGINT[^]*stopped/));
  });

  test('npm start: a terminal that is closed takes every process of the federation with it', async (t) => {
    const [terminal, ports] = await federation(t, (options) => atTerminal(`npm start -- ${options.join(' ')}`));
    terminal.processes();
    terminal.child.kill('SIGKILL');
    await terminal.isGone(ports);
  });
});

describe('launcher', { skip: !existsSync('/proc/self/stat') }, () => {
  test('launcher: SIGINT to it alone stops the manager in order', async (t) => {
    const [launcher, ports] = await manager(t, ['node', 'bin/oscar.js', 'serve']);
    launcher.processes();
    launcher.child.kill('SIGINT');
    await launcher.isGone(ports);
    await eventually(() => assert.match(launcher.output, /"msg":"stopped"/));
  });

  test('launcher: when it is killed, the manager stops', async (t) => {
    const [launcher, ports] = await manager(t, ['node', 'bin/oscar.js', 'serve']);
    launcher.processes();
    launcher.child.kill('SIGKILL');
    await launcher.isGone(ports);
  });
});
