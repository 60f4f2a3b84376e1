/**
 * How a script is started, and how its exit code outlives the manager.
 *
 * Each script runs below a wrapper that is the leader of its own session: the supervisor (`supervisor.c`), which isolates the
 * script; or, where the machine does not allow that, a shell (`PROCESS_WRAPPER`). Manager and wrapper communicate through
 * files of the attempt's state directory, so that the next manager can continue where this one died:
 *
 * - `launch.json`, the launch record. The manager writes it before it starts the wrapper.
 * - `launch-<number>`, the launch file. Its first line is the claim: the wrapper's process id, or `void` if a manager gave
 *   the launch up. The claim decides whether the script runs. When the script has ended, the wrapper appends
 *   `exit <code>`. The supervisor appends other ends too, and only after the last process of the script is gone.
 * - `pipe`, a named pipe that receives everything the script prints.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, existsSync, fstatSync, fsync, openSync, readFileSync, writeSync } from 'node:fs';
import { getPriority } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type SupervisorOrder, spawnSupervisor } from './supervisor.ts';

const syncToDisk = promisify(fsync);

/** Stored before a script is started, where a script with its own user id cannot write. */
export interface LaunchRecord {
  /** Counts the launches of the attempt, so that a late wrapper of an earlier launch is recognized. */
  readonly number: number;
  readonly at: number;
  readonly uid?: number;
  /** The boot id of the machine, on systems that have one. */
  readonly boot?: string;
  /** The wrapper is the supervisor. */
  readonly isolated?: boolean;
}

/** The files that {@link readSmallFile} reads are shorter than this. */
const SMALL_FILE_BYTES = 4096;

const BOOT = readSmallFile('/proc/sys/kernel/random/boot_id')?.text.trim();

/** True if the machine rebooted since the launch: its processes are gone, and its last writes may be lost. */
export const isFromEarlierBoot = ({ boot }: LaunchRecord) => boot !== undefined && boot !== BOOT;

/** Longer than any launch record, so that each write covers the previous one completely. */
const LAUNCH_BYTES = 256;

const launchRecordFile = (state: string) => join(state, 'launch.json');

/** A script with its own user id can neither open nor replace the launch file. */
export const launchFile = (state: string, number: number) => join(state, `launch-${number}`);

/** Directories of a script that only processes need, not containers. */
export const homeIn = (state: string) => join(state, 'home');
export const temporaryIn = (state: string) => join(state, 'tmp');
export const pipeIn = (state: string) => join(state, 'pipe');

export function readLaunch(state: string): LaunchRecord | undefined {
  const text = readSmallFile(launchRecordFile(state))?.text;
  return text ? (JSON.parse(text) as LaunchRecord) : undefined;
}

/**
 * Syncs the record to the disk before the script is started. So even after a power cut, a script that may have run is not
 * taken for one that has not. It is the only file of an attempt that is synced: claim and exit code may be lost, and so may
 * the attempt's end, but this file is removed only after the file of the end has its name.
 */
export async function writeLaunch(state: string, launch: LaunchRecord): Promise<void> {
  // Overwritten with one write and not truncated: a manager that is killed after truncating would leave an empty file. The
  // next manager would count from 1 again, and mistake the wrapper that finds an old claim for the script.
  const file = openSync(launchRecordFile(state), constants.O_WRONLY | constants.O_CREAT, 0o600);
  try {
    writeSync(file, JSON.stringify({ ...(BOOT !== undefined && { boot: BOOT }), ...launch }).padEnd(LAUNCH_BYTES));
    await syncToDisk(file);
  } finally {
    closeSync(file);
  }
}

/** The process id of the wrapper that runs the script under this launch; 0 if the line is not a process id. */
export function readClaim(state: string, number: number): number | 'void' | undefined {
  const text = readSmallFile(launchFile(state, number))?.text;
  if (!text) return undefined;
  return text.startsWith(VOID) ? 'void' : Number(/^[1-9]\d*(?=\n)/.exec(text)?.[0] ?? 0);
}

const VOID = 'void\n';

/** Writes the claim, so that no wrapper starts the script under this launch. Returns false if a wrapper was faster. */
export function voidClaim(state: string, number: number): boolean {
  // Never appended after the claim of a wrapper: the file's modification time is the time at which the script ended.
  if (readClaim(state, number) === undefined) appendLine(launchFile(state, number), VOID);
  return readClaim(state, number) === 'void';
}

/** Skips anything but a regular file: only a script that runs as the manager's user can have put that there. */
function appendLine(path: string, line: string): void {
  let file: number;
  try {
    file = openSync(path, APPEND, 0o600);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'ELOOP' || code === 'ENXIO' || code === 'EISDIR') return;
    throw error;
  }
  try {
    if (fstatSync(file).isFile()) writeSync(file, line);
  } finally {
    closeSync(file);
  }
}

const { O_WRONLY, O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = constants;
const APPEND = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK;

export interface ScriptExit {
  readonly at: number;
  /** Absent if the supervisor killed the script, or could not. */
  readonly code?: number;
  /** The kernel killed a process of the script because of its limit of memory. */
  readonly outOfMemory: boolean;
  /** The supervisor could not end all processes of the script. */
  readonly stuck: boolean;
}

/** What the wrapper wrote after the script had ended; undefined before that. */
export function readExit(state: string, number: number): ScriptExit | undefined {
  const launch = readSmallFile(launchFile(state, number));
  const found = /^(?<oom>oom\n)?(?:exit (?<code>\d{1,3})|killed|(?<stuck>stuck))$/m.exec(launch?.text ?? '')?.groups;
  if (!launch || !found) return undefined;
  const { code, oom, stuck } = found;
  const ends = { at: launch.modifiedAt, outOfMemory: oom !== undefined, stuck: stuck !== undefined };
  return code === undefined ? ends : { ...ends, code: Number(code) };
}

/**
 * A script that runs as the manager's user can put anything at the path: a link to a file of the manager, a pipe without a
 * writer, a terabyte. Returns undefined for all of these.
 */
function readSmallFile(path: string): { readonly text: string; readonly modifiedAt: number } | undefined {
  let file: number;
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch {
    return undefined;
  }
  try {
    const stat = fstatSync(file);
    if (!stat.isFile() || stat.size > SMALL_FILE_BYTES) return undefined;
    return { text: readFileSync(file, 'utf8'), modifiedAt: Math.round(stat.mtimeMs) };
  } finally {
    closeSync(file);
  }
}

/** Everything needed to start a script. It may be sent to the starter process, so it has only strings and numbers. */
export interface StartOrder {
  readonly script: string;
  /** The launch file, which only the manager can open. */
  readonly launch: string;
  /** The working directory. */
  readonly home: string;
  /** A named pipe for what the script prints. */
  readonly pipe: string;
  readonly environment: Readonly<Record<string, string>>;
  /** A user id that no other script has. */
  readonly uid?: number;
  /** 0 means no limit. */
  readonly maxProcesses: number;
  /** Runs the script below the supervisor instead of a shell. */
  readonly supervisor?: SupervisorOrder;
}

/** A signal that is sent as the user of a script, so that the kernel does not deliver it to processes of other users. */
export interface SignalOrder {
  readonly uid: number;
  readonly signal: 'TERM' | 'KILL';
  /** As for kill(2): a negative number is a process group, -1 is all processes of the user. */
  readonly target: number;
  /**
   * A shell starts in 2 ms, but it needs a free process slot of that user, and it belongs to that user for about one
   * millisecond before it sends the signal: another process of the user can kill it first. Node takes 50 ms, and becomes
   * that user immediately before it sends the signal.
   */
  readonly by: 'shell' | 'node';
}

/** The wrapper of a script: the leader of its session, and of its process group. */
export interface WrapperHandle {
  readonly pid: number;
  /** Resolves to undefined if the starter process that would have reported the exit has exited itself. */
  readonly exit: Promise<WrapperExit | undefined>;
  /** True until the exit is reported. Until then no other process can get this process id or process group. */
  readonly exitPending: boolean;
  /** Stops waiting for the exit. */
  detach(): void;
}

export interface WrapperExit {
  readonly exitCode?: number;
  readonly signal?: string;
}

const NICE_INCREMENT = 5;
const MAX_NICE = 19;

/** The niceness of scripts: they leave the processor to the manager, which calls this. */
export const scriptNiceness = () => Math.min(getPriority() + NICE_INCREMENT, MAX_NICE);

const NICE = ['/usr/bin/nice', '/bin/nice'].find((path) => existsSync(path)) ?? '';

/** Starts a script, or sends a signal, as a child of this process. */
export async function spawnAsChild(order: StartOrder | SignalOrder): Promise<WrapperHandle> {
  const child = spawnOrder(order, NICE);
  const { promise: exit, resolve } = Promise.withResolvers<WrapperExit>();
  child.once('exit', (code, signal) => resolve(toWrapperExit(code, signal)));
  await once(child, 'spawn');
  return {
    pid: child.pid ?? 0,
    exit,
    get exitPending() {
      return child.exitCode === null && child.signalCode === null;
    },
    detach: () => child.unref(),
  };
}

export const toWrapperExit = (code: number | null, signal: string | null): WrapperExit => ({
  ...(code !== null && { exitCode: code }),
  ...(signal !== null && { signal }),
});

/**
 * Starts the wrapper of a script, or the process that sends a signal. `nice` is the path of nice(1), empty if this process
 * has the priority of scripts already.
 */
export function spawnOrder(order: StartOrder | SignalOrder, nice: string): ChildProcess {
  return 'signal' in order ? spawnSignal(order) : spawnWrapper(order, nice);
}

function spawnWrapper(order: StartOrder, nice: string): ChildProcess {
  const { script, launch, home, pipe, environment, uid, maxProcesses } = order;
  using files = new DisposableStack();
  const open = (path: string, flags: number) => files.adopt(openSync(path, flags, 0o600), closeSync);
  // Opened for reading and writing: such an end never blocks on opening, and never sees the other end closed.
  const printed = open(pipe, constants.O_RDWR);
  const kept = open(pipe, constants.O_RDONLY);
  const append = open(launch, constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT);
  const read = open(launch, constants.O_RDONLY);
  if (order.supervisor) return spawnSupervisor(order.supervisor, launch, environment, { printed, kept, append, read });
  const alone = uid === undefined ? '' : 'alone';
  const values = [launch, script, nice, String(maxProcesses), alone];
  return spawn('/bin/sh', ['-c', PROCESS_WRAPPER, 'oscar', ...values], {
    detached: true,
    cwd: home,
    env: environment,
    stdio: ['ignore', printed, 'ignore', kept, append, read],
    ...(uid !== undefined && { uid, gid: uid }),
  });
}

/**
 * Calls process.kill once without effect, so that the call is compiled before it matters. Checks its user id before it
 * sends: as root, -1 would be every process of the machine.
 */
const BECOME_AND_SEND = `
const [uid, target, signal] = process.argv.slice(1).map((word) => (/^-?\\d+$/.test(word) ? Number(word) : word));
process.kill(process.pid, 0);
process.setgroups([]);
process.setgid(uid);
process.setuid(uid);
if (process.getuid() === uid && process.geteuid() === uid) process.kill(target, signal);
else process.exit(1);
`;

function spawnSignal({ uid, signal, target, by }: SignalOrder): ChildProcess {
  if (!Number.isSafeInteger(uid) || uid <= 0) throw new RangeError(`${uid} is not a user id for scripts`);
  const options = { cwd: '/', env: {}, stdio: 'ignore' } as const;
  if (by === 'shell') {
    const words = ['-c', 'kill -s "$1" -- "$2"', 'oscar', signal, String(target)];
    return spawn('/bin/sh', words, { ...options, uid, gid: uid });
  }
  const words = ['--eval', BECOME_AND_SEND, '--', String(uid), String(target), `SIG${signal}`];
  return spawn(process.execPath, words, options);
}

/**
 * Runs a script and keeps its exit code while no manager is running. Arguments: the launch file, the script, the path of
 * nice(1) or '', the maximum number of processes (0: no limit), and `alone` if no other script has its user id.
 * Descriptors: 3 the pipe, 4 appends to the launch file, 5 reads it.
 *
 * - The script's user cannot open the launch file. The wrapper inherits it open, and closes it for the script.
 * - The first line of the launch file decides: the process that appended it may start the script. If a later manager
 *   found no line, it has appended `void`, and this wrapper kills itself. It does so without an exit code, which would be
 *   mistaken for that of the script. The same happens if the disk has no space for the line.
 * - If alone, the wrapper kills what the script left running, in case no manager is running. The manager does not rely on it.
 * - TERM is meant for the script; the wrapper survives it to write the exit code. The script does not inherit a trap with a
 *   command, as it would inherit an ignored signal.
 * - Its own standard error is /dev/null: shells report there which signals ended their children.
 * - After the script it stays until the manager kills it or its directory is gone. It keeps the pipe (3) open, and with it
 *   the last output, for a manager that restarts; and no other process can get its process id and process group.
 * - If the disk has no space for the exit code, the wrapper exits with it.
 */
export const PROCESS_WRAPPER = `
echo $$ >&4 && read -r first <&5 && [ "$first" = $$ ] || kill -KILL $$
trap : HUP INT TERM
ulimit -c 0
[ "$4" = 0 ] || ulimit -u "$4" || ulimit -p "$4"
case "$3" in
  */nice) "$3" -n 5 /bin/sh "$2" 2>&1 3<&- 4>&- 5<&- ;;
  *) /bin/sh "$2" 2>&1 3<&- 4>&- 5<&- ;;
esac
code=$?
[ "$5" = alone ] && kill -KILL -1
echo "exit $code" >&4 || exit $code
exec >&- 4>&- 5<&-
while [ -e "$1" ]; do sleep 30 || kill -STOP $$; done
`;
