import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { promisify } from 'node:util';

const run = promisify(execFile);

export interface ProcessEntry {
  readonly pid: number;
  readonly parent: number;
  /** Its session; where that cannot be told, its process group. */
  readonly session: number;
  readonly uid: number;
  /** Has ended with all its threads, and nobody has asked how. */
  readonly zombie: boolean;
  /** Processor time it has used, in milliseconds. */
  readonly cpuMs: number;
  /** Memory it has, with all that it shares with others. */
  readonly bytes: number;
  /** When it was started, in milliseconds since the machine was; 0 where that cannot be told. */
  readonly startedMs: number;
}

/** The processes of this machine. */
export interface ProcessTable {
  /** All of them, or those of one user: to tell whose a process is costs a fifth of what it costs to read of it. */
  read(uid?: number): Promise<ProcessEntry[]>;

  /** Was it started with these words in its environment or arguments? What cannot be read was not. */
  mentions(pid: number, words: string): Promise<boolean>;

  /** Memory of that process with its share of what it shares; undefined where that cannot be told. */
  fairBytes(pid: number): number | undefined;
}

/** What Linux tells is cheap; elsewhere a program is asked. */
export const processTable = (): ProcessTable => (existsSync('/proc/self/stat') ? fromProc : fromPs);

/** Clock ticks and pages are these on every Linux that Node runs on, but pages of some ARM machines. */
const TICK_MS = 10;
const PAGE_BYTES = 4096;

export const fromProc: ProcessTable = {
  async read(uid) {
    const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
    return pids.flatMap((pid) => readEntry(pid, uid) ?? []);
  },
  async mentions(pid, words) {
    const wanted = Buffer.from(words);
    return ['environ', 'cmdline'].some((file) => readOrNothing(`/proc/${pid}/${file}`)?.includes(wanted) ?? false);
  },
  fairBytes(pid) {
    const kibibytes = /^Pss:\s+(\d+) kB$/m.exec(readOrNothing(`/proc/${pid}/smaps_rollup`)?.toString() ?? '')?.[1];
    return kibibytes === undefined ? undefined : Number(kibibytes) * 1024;
  },
};

function readEntry(pid: string, uid: number | undefined): ProcessEntry | undefined {
  const owner = statSync(`/proc/${pid}`, { throwIfNoEntry: false });
  if (!owner || (uid !== undefined && owner.uid !== uid)) return undefined;
  const stat = readOrNothing(`/proc/${pid}/stat`)?.toString('latin1');
  if (!stat) return undefined;
  // The name of the program is in parentheses and may hold anything, parentheses too.
  const [state, parent, , session, ...rest] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const number = (field: number) => Number(rest[field - 7]);
  return {
    pid: Number(pid),
    parent: Number(parent),
    session: Number(session),
    uid: owner.uid,
    // Threads outlive the first thread of their process, which is a zombie then.
    zombie: (state === 'Z' || state === 'X') && number(20) <= 1,
    cpuMs: (number(14) + number(15)) * TICK_MS,
    bytes: number(24) * PAGE_BYTES,
    startedMs: number(22) * TICK_MS,
  };
}

/** A process may end while we look at it. */
function readOrNothing(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch {
    return undefined;
  }
}

export const fromPs: ProcessTable = {
  async read(wanted) {
    const { stdout } = await run('ps', ['-A', '-o', 'pid=,ppid=,pgid=,uid=,stat=,rss=,time='], { maxBuffer: 2 ** 26 });
    return stdout.split('\n').flatMap((line) => {
      const [pid, parent, group, uid, state, rss, time] = line.trim().split(/\s+/);
      if (time === undefined || (wanted !== undefined && Number(uid) !== wanted)) return [];
      return {
        pid: Number(pid),
        parent: Number(parent),
        session: Number(group),
        uid: Number(uid),
        zombie: state?.startsWith('Z') ?? false,
        cpuMs: milliseconds(time),
        bytes: Number(rss) * 1024,
        startedMs: 0,
      };
    });
  },
  async mentions(pid, words) {
    const asked = run('ps', ['-ww', '-o', 'args=', '-p', String(pid)], { maxBuffer: 2 ** 26 });
    return asked.then(
      ({ stdout }) => stdout.includes(words),
      () => false,
    );
  },
  fairBytes: () => undefined,
};

/** `[days-][hours:]minutes:seconds[.hundredths]` */
function milliseconds(time: string): number {
  const [days, clock] = time.includes('-') ? time.split('-') : ['0', time];
  const seconds = (clock ?? '').split(':').reduce((sum, part) => sum * 60 + Number(part), 0);
  return (Number(days) * 86_400 + seconds) * 1000;
}
