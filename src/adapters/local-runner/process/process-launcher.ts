import { chownSync, closeSync, constants, fstatSync, openSync } from 'node:fs';
import { uptime } from 'node:os';
import { join } from 'node:path';
import {
  type AttemptDirectory,
  LaunchError,
  type Launcher,
  type LaunchOrder,
  type Run,
  type ScriptView,
} from '../launcher.ts';
import { endEveryone, endUser, type KillOptions } from './end-everyone.ts';
import { handOver, homeIn, temporaryIn } from './hand-over.ts';
import { isOfEarlierBoot, launchFile, readClaim, readLaunch, voidClaim, writeLaunch } from './launch-record.ts';
import { Pipes } from './pipes.ts';
import { ProcessOutput } from './printed.ts';
import { ProcessRun, type RunningScript } from './process-run.ts';
import { type ProcessTable, processTable } from './process-table.ts';
import type { StartOrder } from './spawn-wrapper.ts';
import { StarterGone } from './starter-process.ts';
import { Starting } from './starting.ts';
import { type UidRange, Uids } from './uids.ts';
import { Watchdog } from './watchdog.ts';

export interface ProcessLauncherOptions {
  /** That of the runner: attempts are in `attempts` there. Keeps pipes in `pipes` until they are used. */
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
  /** Closed with the launcher. */
  readonly starting?: Pick<Starting, 'start' | 'signal' | 'close'>;
  /** Milliseconds, see {@link KillOptions}. */
  readonly patience?: number;
}

/** Enough for whatever works with threads; far below what a machine has. */
const MAX_PROCESSES = 4096;

const PATIENCE_MS = 30_000;

/** Runs scripts as plain processes of this machine. */
export function createProcessLauncher(options: ProcessLauncherOptions): Launcher {
  return new ProcessLauncher(options);
}

class ProcessLauncher implements Launcher {
  readonly kind = 'process';
  readonly #pipes: Pipes;
  readonly #uids: Uids | undefined;
  readonly #maxProcesses: number;
  readonly #ending: KillOptions;
  readonly #watchdog: Watchdog;
  readonly #starting: Pick<Starting, 'start' | 'close'>;
  readonly #runs = new Map<string, ProcessRun>();
  #closed = false;

  constructor({
    directory,
    uids,
    maxDisk,
    maxProcesses = MAX_PROCESSES,
    table = processTable(),
    starting = new Starting(),
    patience = PATIENCE_MS,
  }: ProcessLauncherOptions) {
    this.#pipes = new Pipes(directory);
    this.#pipes.prepare();
    if (uids && !(uids.first > 0)) throw new RangeError('scripts cannot have the user 0: it is root');
    this.#ending = { table, starting, patience };
    this.#uids = uids && new Uids(uids, join(directory, 'attempts'), (uid) => endUser(uid, this.#ending));
    this.#maxProcesses = uids ? maxProcesses : 0;
    this.#starting = starting;
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
      // Whether it has started the script is told by the claim.
      if (error instanceof StarterGone) return this.launch(order);
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
    if (!launch) return undefined;
    const before = isOfEarlierBoot(launch);
    // A power cut may have taken the claim back: one that is not there says nothing then.
    if (before ? readClaim(state, launch.number) === 'void' : voidClaim(state, launch.number)) {
      await this.#endLeft(name, directory);
      return undefined;
    }
    const claim = before ? undefined : readClaim(state, launch.number);
    const { at: startedAt, number } = launch;
    const uid = this.#uids?.heldBy(name);
    const script = { directory, number, demand, startedAt, ...(uid !== undefined && { uid }), ending: this.#ending };
    const leader = typeof claim === 'number' ? await this.#leaderOf(script, claim) : 0;
    const run = this.#keep(name, { ...script, leader, printed: new ProcessOutput(openPipe(state), print) });
    if (leader !== 0) run.see(await this.#ending.table.read());
    return run;
  }

  async remove(name: string): Promise<void> {
    if (!this.#runs.get(name)?.gone) await this.#uids?.end(name);
    this.#runs.delete(name);
    this.#uids?.release(name);
  }

  usage(): { cpu: number; memory: number } {
    return this.#watchdog.usage();
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const run of this.#runs.values()) run.letGo();
    this.#watchdog.close();
    this.#starting.close();
    await this.#pipes.close();
  }

  async #start(order: LaunchOrder): Promise<Run> {
    const { name, directory, demand } = order;
    const { state } = directory;
    const before = readLaunch(state);
    const uid = await this.#uids?.take(name);
    handOver(directory, uid);
    const number = (before?.number ?? 0) + 1;
    await this.#pipes.take(pipeIn(state));
    if (uid !== undefined) chownSync(pipeIn(state), uid, uid);
    const startedAt = Date.now();
    const startedMs = uptime() * 1_000;
    await writeLaunch(state, { number, at: startedAt, ...(uid !== undefined && { uid }) });

    // As long as we could write to it, nobody who reads it takes it for finished.
    using held = new DisposableStack();
    held.adopt(openSync(pipeIn(state), constants.O_RDWR), closeSync);
    const printed = new ProcessOutput(openPipe(state), order.print);
    try {
      const started = await this.#starting.start(this.#startOrder(order, number, uid));
      const user = uid === undefined ? {} : { uid };
      const script = { directory, number, demand, startedAt, startedMs, ...user, ending: this.#ending };
      return this.#keep(name, { ...script, leader: started.pid, printed, started });
    } catch (error) {
      printed.close();
      if (!(error instanceof StarterGone)) voidClaim(state, number);
      throw error;
    }
  }

  #startOrder({ directory, environment }: LaunchOrder, number: number, uid: number | undefined): StartOrder {
    const { state, script } = directory;
    const { PATH = '/usr/local/bin:/usr/bin:/bin', LANG, TZ } = process.env;
    const basics = {
      PATH,
      ...(LANG !== undefined && { LANG }),
      ...(TZ !== undefined && { TZ }),
      HOME: homeIn(state),
      TMPDIR: temporaryIn(state),
    };
    return {
      script,
      launch: launchFile(state, number),
      home: homeIn(state),
      pipe: pipeIn(state),
      environment: { ...basics, ...environment },
      ...(uid !== undefined && { uid }),
      maxProcesses: this.#maxProcesses,
    };
  }

  #keep(name: string, script: RunningScript): ProcessRun {
    const run = new ProcessRun(script);
    this.#runs.set(name, run);
    if (this.#closed) run.letGo();
    else this.#watchdog.add(run);
    return run;
  }

  /** Only a script that ran can have removed the claim of its wrapper. It must not go on beside its own next run. */
  async #endLeft(name: string, directory: AttemptDirectory): Promise<void> {
    if (this.#uids) return this.#uids.end(name);
    if (await endEveryone({ directory, ending: this.#ending }, () => false)) return;
    throw new Error(`processes of an earlier start of ${name} cannot be ended`);
  }

  /**
   * The process id in a claim is believed only if that process is one of this script: ids are used again, and a script
   * could write any into it.
   */
  async #leaderOf(script: Pick<RunningScript, 'uid' | 'directory' | 'number'>, claim: number): Promise<number> {
    const { table } = this.#ending;
    const { uid, directory, number } = script;
    const entries = (await table.read()).filter(({ zombie }) => !zombie);
    const launch = launchFile(directory.state, number);
    for (const { pid, session, uid: owner } of entries) {
      if (session !== pid || (claim !== 0 && pid !== claim)) continue;
      if (uid === undefined ? await table.mentions(pid, launch) : owner === uid) return pid;
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
