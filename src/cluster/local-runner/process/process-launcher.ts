import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, closeSync, constants, existsSync, fstatSync, openSync } from 'node:fs';
import { dirname, join } from 'node:path';
import {
  type AttemptDirectory,
  LaunchError,
  type Launcher,
  type LaunchOrder,
  type Run,
  type ScriptView,
} from '../launcher.ts';
import { endEveryone } from './end-everyone.ts';
import { handOver, homeIn, temporaryIn } from './hand-over.ts';
import { marksIn, readClaim, readLaunch, voidClaim, writeLaunch } from './launch-record.ts';
import { Pipes } from './pipes.ts';
import { Printed } from './printed.ts';
import { ProcessRun, type RunningScript } from './process-run.ts';
import { type ProcessTable, processTable } from './process-table.ts';
import { type UidRange, Uids } from './uids.ts';
import { Watchdog } from './watchdog.ts';
import { WRAPPER } from './wrapper.ts';

export interface ProcessLauncherOptions {
  /** Keeps pipes in `pipes` there until they are used; on the file system of the attempts, as the runner's own is. */
  readonly directory: string;
  /**
   * Each script that runs gets a user of its own out of these; only for root. Nobody else may have them: all that such a
   * user runs is ended with the script. Absent: all run as the manager does.
   */
  readonly uids?: UidRange;
  /** Bytes that a script may have on the disk, its input among them. Absent: as many as there are. */
  readonly maxDisk?: number;
  /** Processes of one script, threads too. Only kept for scripts with a user of their own: others share the count. */
  readonly maxProcesses?: number;
  readonly table?: ProcessTable;
}

/** Enough for whatever works with threads; far below what a machine has. */
const MAX_PROCESSES = 4096;

const NICE = ['/usr/bin/nice', '/bin/nice'].find((path) => existsSync(path)) ?? '';

/** Runs scripts as plain processes of this machine. */
export function createProcessLauncher(options: ProcessLauncherOptions): Launcher {
  return new ProcessLauncher(options);
}

class ProcessLauncher implements Launcher {
  readonly kind = 'process';
  readonly #pipes: Pipes;
  readonly #uids: Uids | undefined;
  readonly #maxProcesses: number;
  readonly #table: ProcessTable;
  readonly #watchdog: Watchdog;
  readonly #runs = new Map<string, ProcessRun>();

  constructor({
    directory,
    uids,
    maxDisk,
    maxProcesses = MAX_PROCESSES,
    table = processTable(),
  }: ProcessLauncherOptions) {
    this.#pipes = new Pipes(directory);
    this.#pipes.prepare();
    if (uids && !(uids.first > 0)) throw new RangeError('scripts cannot have the user 0: it is root');
    this.#uids = uids && new Uids(uids);
    this.#maxProcesses = uids ? maxProcesses : 0;
    this.#table = table;
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
      this.#uids?.release(order.name);
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
    if (!launch || voidClaim(state, launch.number)) return undefined;
    const claim = readClaim(state, launch.number);
    const { at: startedAt, uid } = launch;
    const script = { directory, demand, startedAt, ...(uid !== undefined && { uid }), table: this.#table };
    const leader = typeof claim === 'number' ? await this.#leaderOf(script, claim) : 0;
    const run = this.#keep(name, { ...script, leader, printed: new Printed(openPipe(state), print) });
    if (leader !== 0) run.see(await this.#table.read());
    return run;
  }

  async remove(name: string): Promise<void> {
    this.#runs.delete(name);
    this.#uids?.release(name);
  }

  usage(): { cpu: number; memory: number } {
    return this.#watchdog.usage();
  }

  async close(): Promise<void> {
    for (const run of this.#runs.values()) run.letGo();
    this.#watchdog.close();
    await this.#pipes.close();
  }

  async #start(order: LaunchOrder): Promise<Run> {
    const { name, directory, demand } = order;
    const { state } = directory;
    const before = readLaunch(state);
    // A script that took its own claim away to be started again is not to find itself there.
    if (before?.uid !== undefined) await endEveryone({ directory, table: this.#table, uid: before.uid });
    const uid = this.#uids && (before?.uid ?? this.#uids.take(name, dirname(directory.root)));
    handOver(directory, uid);
    const number = (before?.number ?? 0) + 1;
    await this.#pipes.take(pipeIn(state));
    if (uid !== undefined) chownSync(pipeIn(state), uid, uid);
    const startedAt = Date.now();
    writeLaunch(state, { number, at: startedAt, ...(uid !== undefined && { uid }) });

    using files = new DisposableStack();
    const open = (flags: number) => files.adopt(openSync(pipeIn(state), flags), closeSync);
    // Not an end of it each: whoever has both never hears that the other end is gone.
    const pipe = open(constants.O_RDWR);
    const printed = new Printed(openPipe(state), order.print);
    try {
      const child = this.#spawn(order, number, uid, [pipe, open(constants.O_RDONLY)]);
      await once(child, 'spawn');
      const script = { directory, demand, startedAt, ...(uid !== undefined && { uid }), table: this.#table };
      return this.#keep(name, { ...script, leader: child.pid ?? 0, printed, child });
    } catch (error) {
      printed.close();
      voidClaim(state, number);
      throw error;
    }
  }

  #spawn(order: LaunchOrder, number: number, uid: number | undefined, [pipe, kept]: [number, number]): ChildProcess {
    const { state, script } = order.directory;
    const { PATH = '/usr/local/bin:/usr/bin:/bin', LANG, TZ } = process.env;
    const basics = {
      PATH,
      ...(LANG !== undefined && { LANG }),
      ...(TZ !== undefined && { TZ }),
      HOME: homeIn(state),
      TMPDIR: temporaryIn(state),
    };
    const alone = uid === undefined ? '' : 'alone';
    const values = [marksIn(state), String(number), script, NICE, String(this.#maxProcesses), alone];
    return spawn('/bin/sh', ['-c', WRAPPER, 'oscar', ...values], {
      detached: true,
      cwd: homeIn(state),
      env: { ...basics, ...order.environment },
      stdio: ['ignore', pipe, 'ignore', kept],
      ...(uid !== undefined && { uid, gid: uid }),
    });
  }

  #keep(name: string, script: RunningScript): ProcessRun {
    const run = new ProcessRun(script);
    this.#runs.set(name, run);
    this.#watchdog.add(run);
    return run;
  }

  /**
   * The process id in a claim is believed only if that process is one of this script: ids are used again, and a script
   * could write any into it.
   */
  async #leaderOf({ uid, directory }: Pick<RunningScript, 'uid' | 'directory'>, claim: number): Promise<number> {
    const entries = (await this.#table.read()).filter(({ zombie }) => !zombie);
    const marks = marksIn(directory.state);
    for (const { pid, session, uid: owner } of entries) {
      if (session !== pid || (claim !== 0 && pid !== claim)) continue;
      if (uid === undefined ? await this.#table.mentions(pid, marks) : owner === uid) return pid;
    }
    return 0;
  }
}

const pipeIn = (state: string) => join(state, 'pipe');

/** Undefined when it is no pipe any more: a script that runs as the manager does can put anything there. */
function openPipe(state: string): number | undefined {
  try {
    const path = pipeIn(state);
    const flags = constants.O_NONBLOCK | constants.O_NOFOLLOW;
    const file = openSync(path, constants.O_RDONLY | flags);
    if (fstatSync(file).isFIFO()) {
      // Linux tells a reader of the end only if somebody could write since it opened the pipe.
      closeSync(openSync(path, constants.O_WRONLY | flags));
      return file;
    }
    closeSync(file);
  } catch {
    // It is gone.
  }
  return undefined;
}
