/**
 * Runs scripts as plain processes of this machine. The life of a process attempt:
 *
 * 1. `launch` assigns a user id and gives it the directories (`user-ids.ts`), writes the launch record (`wrapper.ts`), and
 *    starts the wrapper, directly or through the starter process (`starter.ts`). The wrapper is the supervisor
 *    (`supervisor.c`) where the machine allows namespaces (`isolation.ts`), otherwise a shell.
 * 2. The wrapper claims the launch and runs the script, whose output arrives through a named pipe (`process-run.ts`).
 * 3. Meanwhile the watchdog checks memory and disk (`watchdog.ts`), which it reads from the process table
 *    (`process-table.ts`).
 * 4. When the script has ended or is to be ended, all its processes are killed (`process-run.ts`).
 * 5. `remove` releases the user id.
 *
 * If the manager dies, wrapper and script continue. `find` of the next manager reads the launch record and the claim, and
 * continues at the same step.
 */
import { execFile } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { chownSync, closeSync, constants, fstatSync, mkdirSync, openSync, readdirSync, renameSync } from 'node:fs';
import { uptime } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import {
  type AttemptDirectory,
  LaunchError,
  type Launcher,
  type LaunchOrder,
  type Run,
  type ScriptView,
} from '../launcher.ts';
import type { Sandbox } from './isolation.ts';
import {
  type KillOptions,
  killScript,
  killUser,
  ProcessOutput,
  ProcessRun,
  type RunningScript,
  type ScriptCgroups,
} from './process-run.ts';
import { openProcessTable, type ProcessTable } from './process-table.ts';
import { ScriptStarter, StarterExited } from './starter.ts';
import { prepareDirectories, type UserIdRange, UserIds } from './user-ids.ts';
import { Watchdog } from './watchdog.ts';
import {
  homeIn,
  isFromEarlierBoot,
  launchFile,
  pipeIn,
  readClaim,
  readLaunch,
  type StartOrder,
  temporaryIn,
  voidClaim,
  writeLaunch,
} from './wrapper.ts';

export interface ProcessLauncherOptions {
  /** The directory of the runner: attempts are in `attempts` there, unused pipes in `pipes`. */
  readonly directory: string;
  /**
   * User ids for scripts, one for each that runs; requires root. Nothing else may use these ids: everything that such a user
   * runs is killed with the script. If absent, all scripts run as the manager's user.
   */
  readonly uids?: UserIdRange;
  /** Bytes that a script may have on the disk, including its input. Unlimited if absent. */
  readonly maxDisk?: number;
  /** Processes and threads of one script. Applied only to scripts with their own user id: the kernel counts per user. */
  readonly maxProcesses?: number;
  /** Runs scripts in namespaces. If absent, nothing keeps a script from the processes and files of its user. */
  readonly sandbox?: Sandbox;
  readonly table?: ProcessTable;
  /** The launcher closes it. */
  readonly starter?: Pick<ScriptStarter, 'start' | 'signal' | 'close'>;
  /** See {@link KillOptions}. */
  readonly killTimeoutMs?: number;
}

/** Enough for programs with many threads, and far fewer than a machine can have. */
const MAX_PROCESSES = 4096;

const KILL_TIMEOUT_MS = 30_000;

export function createProcessLauncher(options: ProcessLauncherOptions): Launcher {
  return new ProcessLauncher(options);
}

class ProcessLauncher implements Launcher {
  readonly kind = 'process';
  readonly #pipes: NamedPipePool;
  readonly #userIds: UserIds | undefined;
  readonly #maxProcesses: number;
  readonly #killing: KillOptions;
  readonly #watchdog: Watchdog;
  readonly #sandbox: Sandbox | undefined;
  readonly #cgroupPrefix: string;
  readonly #starter: Pick<ScriptStarter, 'start' | 'close'>;
  readonly #runs = new Map<string, ProcessRun>();
  #closed = false;

  constructor({
    directory,
    uids,
    maxDisk,
    maxProcesses = MAX_PROCESSES,
    sandbox,
    table = openProcessTable(),
    starter = new ScriptStarter(),
    killTimeoutMs: timeoutMs = KILL_TIMEOUT_MS,
  }: ProcessLauncherOptions) {
    this.#pipes = new NamedPipePool(directory);
    this.#pipes.fill();
    if (uids && !(uids.first > 0)) throw new RangeError('scripts cannot have the user id 0: it is root');
    this.#killing = { table, starter, timeoutMs };
    this.#userIds = uids && new UserIds(uids, join(directory, 'attempts'), (uid) => this.#freeUser(uid));
    this.#sandbox = sandbox;
    this.#cgroupPrefix = `${createHash('sha256').update(directory).digest('hex').slice(0, 16)}-`;
    sandbox?.cgroups?.sweep(this.#cgroupPrefix);
    this.#maxProcesses = uids ? maxProcesses : 0;
    this.#starter = starter;
    this.#watchdog = new Watchdog(table, maxDisk ?? Number.POSITIVE_INFINITY);
  }

  view({ script, input, output }: AttemptDirectory): ScriptView {
    return { script, input, output };
  }

  /** A process needs no image. */
  async prepare(): Promise<void> {}

  async launch(order: LaunchOrder): Promise<Run> {
    const found = await this.find(order);
    if (found) return found;
    try {
      return await this.#start(order);
    } catch (error) {
      // The claim tells whether the starter has started the script before it exited.
      if (error instanceof StarterExited) return this.launch(order);
      this.#userIds?.release(order.name);
      if (error instanceof LaunchError) throw error;
      const reason = error instanceof Error ? error.message : String(error);
      throw new LaunchError('StartFailed', `the script cannot be started: ${reason}`, { cause: error });
    }
  }

  async find({ name, directory, demand, print }: LaunchOrder): Promise<Run | undefined> {
    const known = this.#runs.get(name);
    if (known) return known;
    const { state } = directory;
    const launch = readLaunch(state);
    if (!launch) return undefined;
    const rebooted = isFromEarlierBoot(launch);
    // A power cut may have lost the claim. So after a reboot, a missing claim does not prove that the script did not run.
    if (rebooted ? readClaim(state, launch.number) === 'void' : voidClaim(state, launch.number)) {
      await this.#killLeftovers(name, directory);
      return undefined;
    }
    const claim = rebooted ? undefined : readClaim(state, launch.number);
    const { at: startedAt, number } = launch;
    const uid = this.#userIds?.find(name);
    const script = {
      directory,
      number,
      demand,
      startedAt,
      killing: this.#killing,
      ...(uid !== undefined && { uid }),
      ...(launch.isolated && { isolated: this.#isolated(name) }),
    };
    const wrapperPid = typeof claim === 'number' ? await this.#findWrapper(script, claim) : 0;
    const run = this.#track(name, { ...script, wrapperPid, output: new ProcessOutput(openPipe(state), print) });
    if (wrapperPid !== 0) run.update(await this.#killing.table.read());
    return run;
  }

  async remove(name: string): Promise<void> {
    if (!this.#runs.get(name)?.allProcessesGone) await this.#userIds?.killProcesses(name);
    this.#runs.delete(name);
    this.#userIds?.release(name);
  }

  usage(): { cpu: number; memory: number } {
    return this.#watchdog.usage();
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const run of this.#runs.values()) run.detach();
    this.#watchdog.close();
    this.#starter.close();
    await this.#pipes.close();
  }

  /**
   * The supervisor has proved that no process of the user is left, unless it was killed. So the costly kill, which does not
   * depend on the process table, is for what other programs and earlier versions may have left.
   */
  async #freeUser(uid: number): Promise<boolean> {
    const isFree = this.#sandbox && (await this.#killing.table.read(uid)).every(({ zombie }) => zombie);
    return isFree || killUser(uid, this.#killing);
  }

  async #start(order: LaunchOrder): Promise<Run> {
    const { name, directory, demand } = order;
    const { state } = directory;
    const previous = readLaunch(state);
    const uid = await this.#userIds?.acquire(name);
    prepareDirectories(directory, uid);
    const number = (previous?.number ?? 0) + 1;
    await this.#pipes.provide(pipeIn(state));
    if (uid !== undefined) chownSync(pipeIn(state), uid, uid);
    const startedAt = Date.now();
    const startedMs = uptime() * 1_000;
    const isolated = this.#sandbox ? { isolated: true } : {};
    await writeLaunch(state, { number, at: startedAt, ...(uid !== undefined && { uid }), ...isolated });

    // Held open for writing until the wrapper has the pipe: otherwise the reader would see its end at once.
    using held = new DisposableStack();
    held.adopt(openSync(pipeIn(state), constants.O_RDWR), closeSync);
    const output = new ProcessOutput(openPipe(state), order.print);
    try {
      const wrapper = await this.#starter.start(this.#toStartOrder(order, number, uid));
      const script = {
        directory,
        number,
        demand,
        startedAt,
        startedMs,
        killing: this.#killing,
        ...(uid !== undefined && { uid }),
        ...(this.#sandbox && { isolated: this.#isolated(name) }),
      };
      return this.#track(name, { ...script, wrapperPid: wrapper.pid, output, wrapper });
    } catch (error) {
      output.close();
      if (!(error instanceof StarterExited)) voidClaim(state, number);
      throw error;
    }
  }

  #toStartOrder(order: LaunchOrder, number: number, uid: number | undefined): StartOrder {
    const { name, directory, environment, demand } = order;
    const { state, script, input, output } = directory;
    const { PATH = '/usr/local/bin:/usr/bin:/bin', LANG, TZ } = process.env;
    const basics = {
      PATH,
      ...(LANG !== undefined && { LANG }),
      ...(TZ !== undefined && { TZ }),
      HOME: homeIn(state),
      TMPDIR: this.#sandbox ? '/tmp' : temporaryIn(state),
    };
    const supervisor = this.#sandbox?.order({
      name: this.#cgroupName(name),
      uid,
      script,
      home: homeIn(state),
      temporary: temporaryIn(state),
      writable: [input, output],
      demand,
      maxProcesses: this.#maxProcesses,
    });
    return {
      script,
      launch: launchFile(state, number),
      home: homeIn(state),
      pipe: pipeIn(state),
      environment: { ...basics, ...environment },
      ...(uid !== undefined && { uid }),
      maxProcesses: this.#maxProcesses,
      ...(supervisor && { supervisor }),
    };
  }

  /** Managers of one machine distinguish their cgroups by the directory of the runner. */
  #cgroupName(name: string): string {
    return `${this.#cgroupPrefix}${name}`;
  }

  #isolated(name: string): ScriptCgroups {
    const cgroups = this.#sandbox?.cgroups;
    return {
      limitsMemory: cgroups?.controllers.includes('memory') ?? false,
      ranOutOfMemory: () => cgroups?.ranOutOfMemory(this.#cgroupName(name)) ?? false,
      remove: () => cgroups?.remove(this.#cgroupName(name)),
    };
  }

  #track(name: string, script: RunningScript): ProcessRun {
    const run = new ProcessRun(script);
    this.#runs.set(name, run);
    if (this.#closed) run.detach();
    else this.#watchdog.add(run);
    return run;
  }

  /**
   * Called for a launch that counts as not started. If its script has run nevertheless, it has itself removed the claim of
   * its wrapper. It must not continue beside its next launch.
   */
  async #killLeftovers(name: string, directory: AttemptDirectory): Promise<void> {
    if (this.#userIds) return this.#userIds.killProcesses(name);
    if (await killScript({ directory, killing: this.#killing }, () => false)) return;
    throw new Error(`processes of an earlier start of ${name} cannot be ended`);
  }

  /**
   * The process id in a claim is trusted only if that process belongs to this script: process ids are reused, and a script
   * could have written any.
   */
  async #findWrapper(
    script: Pick<RunningScript, 'uid' | 'directory' | 'number' | 'isolated'>,
    claim: number,
  ): Promise<number> {
    const { table } = this.#killing;
    const { directory, number } = script;
    const uid = script.isolated ? undefined : script.uid;
    const entries = (await table.read()).filter(({ zombie }) => !zombie);
    const launch = launchFile(directory.state, number);
    for (const { pid, session, uid: owner } of entries) {
      if (session !== pid || (claim !== 0 && pid !== claim)) continue;
      if (uid === undefined ? await table.mentions(pid, launch) : owner === uid) return pid;
    }
    return 0;
  }
}

/** Undefined if the path is no longer a pipe: a script that runs as the manager's user can put anything there. */
function openPipe(state: string): number | undefined {
  try {
    const path = pipeIn(state);
    const flags = constants.O_NONBLOCK | constants.O_NOFOLLOW;
    const file = openSync(path, constants.O_RDONLY | flags);
    if (fstatSync(file).isFIFO()) {
      // Linux reports the end to a reader only if a writer existed since the reader opened the pipe.
      closeSync(openSync(path, constants.O_WRONLY | flags));
      return file;
    }
    closeSync(file);
  } catch {
    // The pipe is gone.
  }
  return undefined;
}

const runProgram = promisify(execFile);

/** Pipes that one call of mkfifo(1) makes: starting it takes 2 ms, each pipe 0.1 ms. */
const BATCH = 32;
const LOW = 8;

/** Named pipes, made in advance: Node cannot make them, and no job should wait for the program that can. */
class NamedPipePool {
  readonly #directory: string;
  readonly #ready: string[];
  #making: Promise<void> | undefined;

  constructor(directory: string) {
    this.#directory = join(directory, 'pipes');
    mkdirSync(directory, { recursive: true, mode: 0o711 });
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 });
    const found = readdirSync(this.#directory, { withFileTypes: true });
    this.#ready = found.filter((entry) => entry.isFIFO()).map(({ name }) => join(this.#directory, name));
  }

  /** Moves a pipe to this path, which must be on the same file system. */
  async provide(path: string): Promise<void> {
    for (;;) {
      const ready = this.#ready.pop();
      if (this.#ready.length < LOW) this.#make();
      if (!ready) await this.#making;
      else if (moveIfPresent(ready, path)) return;
    }
  }

  /** Makes pipes for the first jobs. */
  fill(): void {
    if (this.#ready.length < LOW) this.#make();
  }

  /** Waits until no program makes pipes any more. */
  async close(): Promise<void> {
    await this.#making?.catch(() => undefined);
  }

  #make(): void {
    if (this.#making) return;
    this.#making = this.#makeBatch();
    // Callers that wait get the error; the next caller tries again.
    this.#making.catch(() => undefined);
  }

  async #makeBatch(): Promise<void> {
    const paths = Array.from({ length: BATCH }, () => join(this.#directory, randomUUID()));
    try {
      await runProgram('mkfifo', ['-m', '600', ...paths]);
      this.#ready.push(...paths);
    } finally {
      this.#making = undefined;
    }
  }
}

/** Returns false if another manager with the same directory has taken it first. */
function moveIfPresent(from: string, to: string): boolean {
  try {
    renameSync(from, to);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return false;
    throw error;
  }
}
