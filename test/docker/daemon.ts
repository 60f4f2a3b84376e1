import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream, createWriteStream, readFileSync, rmSync, statSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { dockerPrograms } from './programs.ts';

/** A start takes about 3 s; this value is for a busy machine. */
const READY_MS = 60_000;

/**
 * Cleans up after the test process has ended in any way, which it notices by a pipe. It asks the daemon to stop first,
 * because the daemon removes its containers and their mounts. If the daemon was killed, the processes that name the
 * directory and their children are killed.
 */
const WATCHDOG = `
while read -r line; do pid=$line; done
[ -n "$pid" ] && kill -TERM "$pid" 2>/dev/null
tries=0
while kill -0 "$pid" 2>/dev/null && [ $tries -lt 200 ]; do sleep 0.1; tries=$((tries + 1)); done
kill -KILL "$pid" 2>/dev/null
for process in /proc/[0-9]*; do
  [ "$process" != "/proc/$$" ] && grep -qs -- "$1" "$process/cmdline" &&
    kill -KILL $(cat "$process"/task/*/children) "\${process#/proc/}" 2>/dev/null
done
grep -o " $1[^ ]*" /proc/mounts | sort -r | while read -r mount; do umount -l "$mount"; done
rm -rf "$1"
`;

/** A real Docker daemon with everything in one temporary directory. It leaves the network of the machine alone. */
export class Daemon {
  readonly directory: string;
  readonly socket: string;
  readonly #program: string;
  readonly #watchdog: ChildProcess;
  #child: ChildProcess | undefined;

  readonly #liveRestore: boolean;

  private constructor(directory: string, program: string, liveRestore: boolean) {
    this.directory = directory;
    this.#liveRestore = liveRestore;
    this.socket = join(directory, 'docker.sock');
    this.#program = program;
    // In its own session, so that an interrupt of the tests does not end it.
    this.#watchdog = spawn('sh', ['-c', WATCHDOG, 'watchdog', directory], {
      stdio: ['pipe', 'ignore', 'ignore'],
      detached: true,
    });
  }

  /** Starts a daemon that has the images of the tests. */
  static async start({ liveRestore = false } = {}): Promise<Daemon> {
    const { dockerd, archive } = await dockerPrograms((line) => process.stderr.write(`${line}\n`));
    const daemon = new Daemon(await mkdtemp(join(tmpdir(), 'oscar-docker-')), dockerd, liveRestore);
    try {
      await daemon.resume();
      await daemon.load(archive);
      return daemon;
    } catch (error) {
      const log = readFileSync(daemon.#log(), 'utf8').slice(-4_000);
      await daemon.stop();
      throw new Error(`the Docker daemon did not start; what it said:\n${log}`, { cause: error });
    }
  }

  /** Starts it, also after {@link interrupt}, with the containers that it had. */
  async resume(): Promise<void> {
    const flags = {
      host: `unix://${this.socket}`,
      'data-root': join(this.directory, 'data'),
      'exec-root': join(this.directory, 'exec'),
      pidfile: join(this.directory, 'pid'),
      // If the machine runs a containerd, daemons share it.
      'containerd-namespace': basename(this.directory),
      'containerd-plugins-namespace': `${basename(this.directory)}-plugins`,
      // Containers continue while the daemon is away.
      'live-restore': this.#liveRestore,
      bridge: 'none',
      iptables: false,
      ip6tables: false,
    };
    // It ended with its daemon. Without an init process to reap it, it would look as if it still ran.
    rmSync(join(this.directory, 'exec/containerd/containerd.pid'), { force: true });
    const args = Object.entries(flags).map(([name, value]) => `--${name}=${value}`);
    const child = spawn(this.#program, args, { stdio: ['ignore', 'pipe', 'pipe'], env: environment() });
    this.#child = child;
    const log = createWriteStream(this.#log(), { flags: 'a' });
    child.stdout?.pipe(log, { end: false });
    child.stderr?.pipe(log, { end: false });
    child.once('exit', () => log.end());
    this.#watchdog.stdin?.write(`${child.pid}\n`);
    await eventually(async () => {
      if (child.exitCode !== null) return;
      await this.ask('GET', '/_ping');
    }, READY_MS);
    if (child.exitCode !== null) throw new Error('dockerd has ended');
  }

  /** By default as a package update does: SIGTERM, after which it ends its containers. */
  async interrupt(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
  }

  async stop(): Promise<void> {
    await this.interrupt();
    const gone = once(this.#watchdog, 'exit');
    this.#watchdog.stdin?.end();
    await gone;
  }

  async load(archive: string): Promise<void> {
    const headers = { 'content-type': 'application/x-tar', 'content-length': statSync(archive).size };
    const asked = request({ socketPath: this.socket, method: 'POST', path: '/images/load', headers });
    const answered = once(asked, 'response');
    await pipeline(createReadStream(archive), asked);
    const [response] = (await answered) as [IncomingMessage];
    const said = await text(response);
    if (response.statusCode !== 200 || said.includes('"error"')) throw new Error(`images are not loaded: ${said}`);
  }

  /** Sends a request to the API of Docker, as another program would. Throws unless it succeeds. */
  async ask(method: string, path: string, body?: unknown): Promise<unknown> {
    const headers = { 'content-type': 'application/json' };
    const asked = request({ socketPath: this.socket, method, path, headers, timeout: 10_000, agent: false });
    asked.end(body === undefined ? undefined : JSON.stringify(body));
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    const said = await text(response);
    if ((response.statusCode ?? 500) >= 400) throw new Error(`${method} ${path}: ${response.statusCode} ${said}`);
    return said.startsWith('{') || said.startsWith('[') ? JSON.parse(said) : said;
  }

  #log(): string {
    return join(this.directory, 'dockerd.log');
  }
}

/** Registries of the tests are on loopback, which no proxy reaches. */
function environment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !/_proxy$/i.test(name));
  return { ...Object.fromEntries(kept), PATH: `${process.env['PATH']}:/usr/local/sbin:/usr/sbin:/sbin` };
}
