import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, constants, openSync } from 'node:fs';

/** What it takes to start a script. It may go to another process, so it is nothing but words and numbers. */
export interface StartOrder {
  readonly script: string;
  /** The file of the launch: only the manager can open it. */
  readonly launch: string;
  /** Where it begins. */
  readonly home: string;
  /** A named pipe that takes what it prints. */
  readonly pipe: string;
  readonly environment: Readonly<Record<string, string>>;
  /** A user that nobody else has. */
  readonly uid?: number;
  /** 0: as many as will. */
  readonly maxProcesses: number;
}

/** A signal that is sent with the rights of a script's user: the kernel keeps it from the processes of anybody else. */
export interface SignalOrder {
  readonly uid: number;
  readonly signal: 'TERM' | 'KILL';
  /** As for kill(2): a process group below 0, or -1 for all processes of that user. */
  readonly target: number;
  /**
   * A shell starts in 2 ms, but needs a free process of that user, and belongs to that user for about one millisecond before
   * it sends the signal: another process of the user can end it first. Node takes 50 ms, and becomes that user in the moment
   * before it sends.
   */
  readonly by: 'shell' | 'node';
}

/** Starts the wrapper of a script, or what sends a signal. `nice` is the program of that name, where one is needed. */
export function spawnOrder(order: StartOrder | SignalOrder, nice: string): ChildProcess {
  return 'signal' in order ? spawnSignal(order) : spawnWrapper(order, nice);
}

function spawnWrapper(order: StartOrder, nice: string): ChildProcess {
  const { script, launch, home, pipe, environment, uid, maxProcesses } = order;
  using files = new DisposableStack();
  const open = (path: string, flags: number) => files.adopt(openSync(path, flags, 0o600), closeSync);
  // Not an end of it each: whoever has both never hears that the other end is gone, and does not wait for it either.
  const printed = open(pipe, constants.O_RDWR);
  const kept = open(pipe, constants.O_RDONLY);
  const append = open(launch, constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT);
  const read = open(launch, constants.O_RDONLY);
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

/** Calls once before it counts, so that the call is compiled, and checks who it is: as root, -1 would be the whole machine. */
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
  if (!Number.isSafeInteger(uid) || uid <= 0) throw new RangeError(`${uid} is no user of a script`);
  const options = { cwd: '/', env: {}, stdio: 'ignore' } as const;
  if (by === 'shell') {
    const words = ['-c', 'kill -s "$1" -- "$2"', 'oscar', signal, String(target)];
    return spawn('/bin/sh', words, { ...options, uid, gid: uid });
  }
  const words = ['--eval', BECOME_AND_SEND, '--', String(uid), String(target), `SIG${signal}`];
  return spawn(process.execPath, words, options);
}

/**
 * What runs a script and keeps its exit code when no manager is there. Arguments: the file of the launch, the script, the
 * program `nice` if there is one, how many processes there may be (0: as many as will), and `alone` if nobody else has its
 * user. Descriptors: 3 the pipe, 4 appends to the file of the launch, 5 reads it.
 *
 * - The user of the script cannot open the file of the launch. The wrapper inherits it open, and the script does not.
 * - The first line of that file decides: whoever appends it may start the script. A manager that came later and found none
 *   has appended its own, and then this one goes. Without an exit code: it would be taken for that of the script, as when
 *   there is no disk for a line.
 * - Alone, it ends what the script left running, for the time in which no manager is there. The manager does not rely on it.
 * - TERM is for the script; the wrapper outlives it to write its exit code. A trap that does something is not inherited,
 *   an ignored signal would be.
 * - Its own standard error is /dev/null: a shell says there what ended its children.
 * - At the end it stays until the manager ends it, or its directory is gone. It keeps the pipe (3), and so what was printed
 *   last, for a manager that comes back; and its process id, and so the process group, cannot become somebody else's.
 * - No disk left for the exit code: then the exit code is its own.
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
