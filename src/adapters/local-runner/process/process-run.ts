/**
 * A script that runs as processes: reading its output, finding out that it has ended, and killing everything that it
 * started. A run ends when its wrapper exits, when the wrapper has written an exit code, or when it is killed. Then all
 * its processes are killed, the rest of its output is read, and only then `ended` resolves.
 */
import { readSync } from 'node:fs';
import { Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import type { Demand } from '../../../model/job/index.ts';
import type { AttemptDirectory, Run, RunEnd } from '../launcher.ts';
import type { ProcessEntry, ProcessTable } from './process-table.ts';
import type { ScriptStarter } from './starter.ts';
import { launchFile, readExit, type WrapperExit, type WrapperHandle } from './wrapper.ts';

/** For the kernel to close the files of killed processes, and for the manager to read a full pipe. */
const DRAIN_MS = 2_000;

export interface RunningScript {
  readonly directory: AttemptDirectory;
  /** The number of the launch. */
  readonly number: number;
  readonly demand: Demand;
  readonly startedAt: number;
  /** The start in milliseconds since boot, by a clock that cannot be set. Absent if an earlier manager started the script. */
  readonly startedMs?: number;
  readonly uid?: number;
  /** Set if the wrapper is the supervisor. */
  readonly isolated?: ScriptCgroups;
  /** 0 if the wrapper is gone, or was never found. */
  readonly wrapperPid: number;
  readonly output: ProcessOutput;
  readonly killing: KillOptions;
  /** Absent if an earlier manager started the script: then nobody reports how the wrapper exited. */
  readonly wrapper?: WrapperHandle;
}

export interface ScriptCgroups {
  readonly limitsMemory: boolean;
  ranOutOfMemory(): boolean;
  /** For a script whose supervisor was killed. */
  remove(): void;
}

export class ProcessRun implements Run {
  readonly startedAt: number;
  readonly ended: Promise<RunEnd>;
  readonly script: RunningScript;
  readonly #end = Promise.withResolvers<RunEnd>();
  #wrapperExit: WrapperExit | undefined;
  #starterExited = false;
  #cause: RunEnd['cause'];
  #finishing = false;
  #detached = false;
  #allProcessesGone = false;

  constructor(script: RunningScript) {
    this.script = script;
    this.startedAt = script.startedAt;
    this.ended = this.#end.promise;
    void script.wrapper?.exit.then((exit) => this.#onWrapperExit(exit));
    if (script.wrapperPid === 0) this.#finish();
    // The wrapper closes its end of the pipe after the script has ended.
    void script.output.end.then(() => this.#checkExit());
  }

  /** The processes of this script, as far as the process table alone can tell. */
  select(entries: readonly ProcessEntry[]): ProcessEntry[] {
    // A process that leaves its session is still below PID 1 of its namespace, and so below the supervisor.
    if (this.script.isolated && this.script.uid === undefined) return selectBelow(this.script.wrapperPid, entries);
    return entries.filter((entry) => this.#owns(entry));
  }

  #owns({ session, uid, pid }: ProcessEntry): boolean {
    const { wrapperPid } = this.script;
    // After the wrapper has exited, another process may get its process id. A user id belongs to this script alone.
    if (this.script.uid !== undefined) return uid === this.script.uid;
    return wrapperPid !== 0 && (session === wrapperPid || pid === wrapperPid);
  }

  /**
   * Called with the current processes of the machine. Also checks for the exit code, because a process that the script left
   * running may keep the pipe open.
   */
  update(entries: readonly ProcessEntry[]): void {
    const { wrapperPid, wrapper, isolated } = this.script;
    const isWrapper = (each: ProcessEntry) =>
      each.pid === wrapperPid && !each.zombie && (isolated !== undefined || this.#owns(each));
    if (!wrapper?.exitPending && !entries.some(isWrapper)) this.#finish();
    else this.#checkExit();
  }

  async signal(name: 'TERM' | 'KILL'): Promise<void> {
    if (name === 'KILL') this.kill('signal');
    else await this.#terminate();
  }

  kill(cause: NonNullable<RunEnd['cause']>): void {
    if (this.#finishing) return;
    this.#cause = cause;
    this.#finish();
  }

  /** Stops following the script, which continues. */
  detach(): void {
    this.#detached = true;
    this.script.output.close();
    this.script.wrapper?.detach();
  }

  #onWrapperExit(exit: WrapperExit | undefined): void {
    this.#wrapperExit = exit;
    this.#starterExited = exit === undefined;
    if (exit) this.#finish();
  }

  /** True once no process of the script is left. */
  get allProcessesGone(): boolean {
    return this.#allProcessesGone;
  }

  #checkExit(): void {
    if (this.#readExit()) this.#finish();
  }

  #finish(): void {
    if (this.#finishing || this.#detached) return;
    this.#finishing = true;
    const { output } = this.script;
    output.readAvailable();
    void (async () => {
      this.#allProcessesGone = await this.#killAll();
      await output.drain(DRAIN_MS);
      if (!this.#detached) this.#end.resolve(this.#toRunEnd());
    })();
  }

  async #killAll(): Promise<boolean> {
    const { isolated } = this.script;
    const ended = isolated && (await this.#endSupervisor());
    if (ended !== undefined) return ended;
    const gone = await killScript(this.script, (entry) => this.#owns(entry));
    isolated?.remove();
    return gone;
  }

  /**
   * The supervisor writes an end only after the last process of the script is gone. Undefined if it was killed itself: then
   * the kernel kills the namespace, and the manager has to make sure of that.
   */
  async #endSupervisor(): Promise<boolean | undefined> {
    const deadline = performance.now() + this.script.killing.timeoutMs;
    if (!this.#readExit()) await this.#signalSupervisor('SIGUSR1');
    for (let round = 1; ; round++) {
      const exit = this.#readExit();
      const late = performance.now() > deadline;
      if (exit || late) await this.#signalSupervisor('SIGKILL');
      if (exit) return !exit.stuck;
      if (late || !(await this.#supervisorExists())) return undefined;
      await pause(Math.min(round, LONGEST_PAUSE_MS));
    }
  }

  async #signalSupervisor(signal: 'SIGTERM' | 'SIGUSR1' | 'SIGKILL'): Promise<void> {
    if (!(await this.#supervisorExists())) return;
    try {
      process.kill(this.script.wrapperPid, signal);
    } catch {
      // It has just exited.
    }
  }

  /** Checked before each signal: after the supervisor has exited, another process may get its process id. */
  async #supervisorExists(): Promise<boolean> {
    const { wrapper, wrapperPid, directory, number, killing } = this.script;
    if (wrapper && !this.#starterExited) return wrapper.exitPending;
    return wrapperPid !== 0 && killing.table.mentions(wrapperPid, launchFile(directory.state, number));
  }

  #readExit(): ReturnType<typeof readExit> {
    return readExit(this.script.directory.state, this.script.number);
  }

  #toRunEnd(): RunEnd {
    if (!this.#allProcessesGone) return { at: Date.now(), cause: 'unkillable' };
    const exit = this.#readExit();
    const at = exit?.at ?? Date.now();
    if (this.#cause && this.#cause !== 'signal') return { at, cause: this.#cause };
    if (exit?.outOfMemory) return { at, cause: 'out-of-memory' };
    if (exit?.code !== undefined) return { at, exitCode: exit.code };
    if (exit || this.#cause) return { at, cause: 'signal', signal: 'SIGKILL' };
    const { exitCode, signal } = this.#wrapperExit ?? {};
    // The disk had no space for the exit code: the wrapper exited with the exit code of the script.
    if (exitCode !== undefined) return { at, exitCode };
    return signal === undefined ? { at, cause: 'lost' } : { at, cause: 'signal', signal };
  }

  async #terminate(): Promise<void> {
    const { wrapperPid, uid, killing, isolated } = this.script;
    if (wrapperPid === 0 || this.#finishing || this.#wrapperExit) return;
    if (isolated) return this.#signalSupervisor('SIGTERM');
    // Sent as the user of the script: if the wrapper has just exited, another process may have its process id.
    if (uid !== undefined)
      return void (await killing.starter.signal({ uid, signal: 'TERM', target: -wrapperPid, by: 'shell' }));
    try {
      process.kill(-wrapperPid, 'SIGTERM');
    } catch {
      // It has just exited.
    }
  }
}

/** All descendants of a process, and the process itself. */
function selectBelow(root: number, entries: readonly ProcessEntry[]): ProcessEntry[] {
  const children = Map.groupBy(entries, ({ parent }) => parent);
  const found = entries.filter(({ pid }) => pid === root);
  for (const { pid } of found) found.push(...(children.get(pid) ?? []));
  return found;
}

/**
 * At most this many bytes are read from one script in this many milliseconds: 40 MB/s. A script that prints without end
 * blocks on its pipe then, instead of taking all the time of the manager.
 */
const WINDOW_BYTES = 2 * 2 ** 20;
const WINDOW_MS = 50;

/** The maximum capacity of a pipe is 16 reads of this size. */
const READ_BYTES = 64 * 1024;
const MAX_READS = 16;

/** Reads the pipe that a script prints to. */
export class ProcessOutput {
  readonly #socket: Socket | undefined;
  readonly #file: number | undefined;
  readonly #print: (bytes: Uint8Array, at: number) => void;
  readonly #end = Promise.withResolvers<void>();
  #windowBytes = 0;
  #windowStart = 0;
  #unlimited = false;
  #over = false;

  /** `file` is undefined if there is no pipe to read. */
  constructor(file: number | undefined, print: (bytes: Uint8Array, at: number) => void) {
    this.#print = print;
    if (file === undefined) {
      this.#over = true;
      this.#end.resolve();
      return;
    }
    const socket = new Socket({ fd: file, readable: true, writable: false });
    this.#socket = socket;
    this.#file = file;
    socket.on('data', (bytes) => {
      print(bytes, Date.now());
      this.#limitRate(bytes.length);
    });
    for (const event of ['end', 'error', 'close'] as const) {
      socket.on(event, () => {
        this.#over = true;
        this.#end.resolve();
      });
    }
  }

  /** Resolves when no process has the pipe open for writing and everything was read, or when it was closed. */
  get end(): Promise<void> {
    return this.#end.promise;
  }

  /**
   * Reads what is in the pipe now. Called before the wrapper is killed: after that, the content of the pipe would be lost if
   * the manager died before reading it.
   */
  readAvailable(): void {
    this.#unlimited = true;
    while (!this.#over && this.#socket?.read() !== null);
    if (this.#over || this.#file === undefined) return;
    try {
      for (let i = 0; i < MAX_READS; i++) {
        const piece = Buffer.allocUnsafe(READ_BYTES);
        const count = readSync(this.#file, piece);
        if (count === 0) return;
        this.#print(piece.subarray(0, count), Date.now());
      }
    } catch {
      // The pipe is empty.
    }
  }

  /** Reads to the end of the pipe, then closes it. Waits only that long for a process that escaped and keeps it open. */
  async drain(milliseconds: number): Promise<void> {
    this.#unlimited = true;
    this.#socket?.resume();
    const over = new AbortController();
    await Promise.race([this.end, pause(milliseconds, undefined, { signal: over.signal }).catch(() => undefined)]);
    over.abort();
    this.close();
  }

  close(): void {
    this.#over = true;
    this.#socket?.destroy();
  }

  #limitRate(bytes: number): void {
    const now = performance.now();
    if (now - this.#windowStart > WINDOW_MS) {
      this.#windowStart = now;
      this.#windowBytes = 0;
    }
    this.#windowBytes += bytes;
    if (this.#unlimited || this.#windowBytes < WINDOW_BYTES) return;
    this.#socket?.pause();
    setTimeout(() => this.#socket?.resume(), this.#windowStart + WINDOW_MS - now);
  }
}

export interface KillOptions {
  readonly table: ProcessTable;
  readonly starter: Pick<ScriptStarter, 'signal'>;
  /**
   * A process that still exists after this time counts as unkillable. A shorter time misjudges killed processes that only
   * wait for a processor; a longer one delays the end of a job whose process hangs in a broken disk.
   */
  readonly timeoutMs: number;
}

const LONGEST_PAUSE_MS = 100;

/** The start times of processes and of scripts come from clocks that are read at different times, and rounded. */
const ROUNDING_MS = 1_000;

type KillTarget = Pick<RunningScript, 'directory' | 'killing' | 'uid' | 'wrapper' | 'startedMs'>;

/** Kills the wrapper and everything that the script has started. Resolves to false if a process of it still exists. */
export function killScript(script: KillTarget, owns: (entry: ProcessEntry) => boolean): Promise<boolean> {
  return script.uid === undefined ? killSession(script, owns) : killUser(script.uid, script.killing);
}

/**
 * Kills every process of a user. Nothing that these processes do or write can make it stop early: it is done after a SIGKILL
 * to all of them at once, which the kernel delivers atomically with respect to forks, and a process table without that user.
 * The process table alone is not enough: it misses a process that forks and exits faster than the table is read.
 */
export async function killUser(uid: number, { table, starter, timeoutMs }: KillOptions): Promise<boolean> {
  const killAll = (by: 'shell' | 'node') => starter.signal({ uid, signal: 'KILL', target: -1, by });
  const listAlive = async () => (await table.read(uid)).filter(({ zombie }) => !zombie);
  const deadline = performance.now() + timeoutMs;
  for (let round = 1; ; round++) {
    let killed = await killAll('shell');
    if (!killed) {
      // The machine has no free process for the shell, or a process of that user killed the shell first.
      for (const { pid } of await listAlive()) kill(pid);
      killed = await killAll('node');
    }
    if ((await listAlive()).length === 0 && killed) return true;
    if (performance.now() > deadline) return false;
    await pause(Math.min(round, LONGEST_PAUSE_MS));
  }
}

/**
 * Best effort, for a script that runs as the manager's user. Finds processes by the session of the wrapper, and by the
 * output directory in their environment, which no other script has. A script can hide from this.
 */
async function killSession(
  { directory, killing, wrapper, startedMs }: KillTarget,
  owns: (entry: ProcessEntry) => boolean,
): Promise<boolean> {
  const { table, timeoutMs } = killing;
  const deadline = performance.now() + timeoutMs;
  if (wrapper?.exitPending) {
    // Most scripts leave nothing behind: then the process table has to be read only once.
    kill(-wrapper.pid);
    const over = new AbortController();
    await Promise.race([wrapper.exit, pause(timeoutMs, undefined, { signal: over.signal }).catch(() => undefined)]);
    over.abort();
  }
  const variable = `TMP_OUTPUT_DIR=${directory.output}\0`;
  // No process of the script is older than the script. Checked first, because reading an environment is the slowest part.
  const tooOld = (entry: ProcessEntry) => entry.startedMs > 0 && entry.startedMs + ROUNDING_MS < (startedMs ?? 0);
  const belongs = async (entry: ProcessEntry) =>
    owns(entry) || (!tooOld(entry) && (await table.mentions(entry.pid, variable)));

  for (let round = 1; ; round++) {
    const left: ProcessEntry[] = [];
    for (const entry of await table.read(process.getuid?.()))
      if (!entry.zombie && (await belongs(entry))) left.push(entry);
    if (left.length === 0) return true;
    if (performance.now() > deadline) return false;
    for (const { pid } of left) kill(pid);
    await pause(Math.min(round, LONGEST_PAUSE_MS));
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has just exited.
  }
}
