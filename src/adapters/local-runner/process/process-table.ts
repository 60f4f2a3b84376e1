import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { promisify } from 'node:util';

const run = promisify(execFile);

export interface ProcessEntry {
  readonly pid: number;
  readonly parent: number;
  /** The session; the process group on systems where ps(1) does not report sessions. */
  readonly session: number;
  readonly uid: number;
  /** It has exited with all its threads, and its parent has not read its exit status. */
  readonly zombie: boolean;
  /** Processor time in milliseconds. */
  readonly cpuMs: number;
  /** Resident memory, including what it shares with other processes. */
  readonly bytes: number;
  /** Start time in milliseconds since boot; 0 if unknown. */
  readonly startedMs: number;
}

/** The processes of this machine. */
export interface ProcessTable {
  /** All processes, or those of one user, which is faster: finding the owner takes a fifth of the time of a full entry. */
  read(uid?: number): Promise<ProcessEntry[]>;

  /** True if the environment or the arguments contain this text; false if they cannot be read. */
  mentions(pid: number, text: string): Promise<boolean>;

  /** Memory with shared pages counted proportionally (PSS); undefined if unknown. */
  proportionalBytes(pid: number): number | undefined;
}

/** Reads /proc on Linux, which is cheap; calls ps(1) on other systems. */
export const openProcessTable = (): ProcessTable => (existsSync('/proc/self/stat') ? procfsTable : psTable);

/** True for every Linux that Node supports, except for the page size of some ARM machines. */
const TICK_MS = 10;
const PAGE_BYTES = 4096;

export const procfsTable: ProcessTable = {
  async read(uid) {
    const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
    return pids.flatMap((pid) => readEntry(pid, uid) ?? []);
  },
  async mentions(pid, text) {
    const wanted = Buffer.from(text);
    return ['environ', 'cmdline'].some((file) => readIfPresent(`/proc/${pid}/${file}`)?.includes(wanted) ?? false);
  },
  proportionalBytes(pid) {
    const kibibytes = /^Pss:\s+(\d+) kB$/m.exec(readIfPresent(`/proc/${pid}/smaps_rollup`)?.toString() ?? '')?.[1];
    return kibibytes === undefined ? undefined : Number(kibibytes) * 1024;
  },
};

function readEntry(pid: string, uid: number | undefined): ProcessEntry | undefined {
  const owner = statSync(`/proc/${pid}`, { throwIfNoEntry: false });
  if (!owner || (uid !== undefined && owner.uid !== uid)) return undefined;
  const stat = readIfPresent(`/proc/${pid}/stat`)?.toString('latin1');
  if (!stat) return undefined;
  // The name of the program is in parentheses and may contain anything, including parentheses.
  const [state, parent, , session, ...rest] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const number = (field: number) => Number(rest[field - 7]);
  return {
    pid: Number(pid),
    parent: Number(parent),
    session: Number(session),
    uid: owner.uid,
    // Threads can outlive the first thread of their process; the process is then shown as a zombie.
    zombie: (state === 'Z' || state === 'X') && number(20) <= 1,
    cpuMs: (number(14) + number(15)) * TICK_MS,
    bytes: number(24) * PAGE_BYTES,
    startedMs: number(22) * TICK_MS,
  };
}

/** Undefined if the process has exited meanwhile. */
function readIfPresent(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch {
    return undefined;
  }
}

export const psTable: ProcessTable = {
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
        cpuMs: parseCpuTime(time),
        bytes: Number(rss) * 1024,
        startedMs: 0,
      };
    });
  },
  async mentions(pid, text) {
    const output = run('ps', ['-ww', '-o', 'args=', '-p', String(pid)], { maxBuffer: 2 ** 26 });
    return output.then(
      ({ stdout }) => stdout.includes(text),
      () => false,
    );
  },
  proportionalBytes: () => undefined,
};

/** `[days-][hours:]minutes:seconds[.hundredths]` */
function parseCpuTime(time: string): number {
  const [days, clock] = time.includes('-') ? time.split('-') : ['0', time];
  const seconds = (clock ?? '').split(':').reduce((sum, part) => sum * 60 + Number(part), 0);
  return (Number(days) * 86_400 + seconds) * 1000;
}
