import { setTimeout as pause } from 'node:timers/promises';
import type { RunningScript } from './process-run.ts';
import type { ProcessEntry, ProcessTable } from './process-table.ts';
import type { Starting } from './starting.ts';

export interface KillOptions {
  readonly table: ProcessTable;
  readonly starting: Pick<Starting, 'signal'>;
  /**
   * Milliseconds after which a process that still exists counts as one that cannot be ended. Shorter: killed processes that
   * only wait for a processor are taken for such. Longer: a job with a process that hangs in a broken disk ends later.
   */
  readonly patience: number;
}

const LONGEST_PAUSE_MS = 100;

/** Clocks that tell when processes were started are read at different times, and rounded. */
const ROUNDING_MS = 1_000;

type Endable = Pick<RunningScript, 'directory' | 'ending' | 'uid' | 'started' | 'startedMs'>;

/** Ends the wrapper and all that the script has started. False: some process of it still exists. */
export function endEveryone(script: Endable, owns: (entry: ProcessEntry) => boolean): Promise<boolean> {
  return script.uid === undefined ? endSession(script, owns) : endUser(script.uid, script.ending);
}

/**
 * Ends every process of a user. Nothing that these processes do or write decides when this is done: only a SIGKILL to all of
 * them at once, which the kernel delivers atomically with respect to forks, and after it a process table without that user.
 * A look at the table alone misses a process that forks and exits faster than the table is read.
 */
export async function endUser(uid: number, { table, starting, patience }: KillOptions): Promise<boolean> {
  const killAll = (by: 'shell' | 'node') => starting.signal({ uid, signal: 'KILL', target: -1, by });
  const left = async () => (await table.read(uid)).filter(({ zombie }) => !zombie);
  const end = performance.now() + patience;
  for (let round = 1; ; round++) {
    let killed = await killAll('shell');
    if (!killed) {
      // The machine has no process left for the shell, or a process of that user has ended it first.
      for (const { pid } of await left()) kill(pid);
      killed = await killAll('node');
    }
    if ((await left()).length === 0 && killed) return true;
    if (performance.now() > end) return false;
    await pause(Math.min(round, LONGEST_PAUSE_MS));
  }
}

/**
 * Best effort, for a script that runs as the user of the manager. Finds processes by the session of the wrapper and by the
 * output directory in their environment, which no other script has. A script can hide from this.
 */
async function endSession(
  { directory, ending, started, startedMs }: Endable,
  owns: (entry: ProcessEntry) => boolean,
): Promise<boolean> {
  const { table, patience } = ending;
  const end = performance.now() + patience;
  if (started?.told) {
    // Most scripts leave nothing behind: then one look at the machine is enough.
    kill(-started.pid);
    const over = new AbortController();
    await Promise.race([started.end, pause(patience, undefined, { signal: over.signal }).catch(() => undefined)]);
    over.abort();
  }
  const mark = `TMP_OUTPUT_DIR=${directory.output}\0`;
  // Nobody is older than the script that started them, and to look at an environment costs more than all the rest.
  const tooOld = (entry: ProcessEntry) => entry.startedMs > 0 && entry.startedMs + ROUNDING_MS < (startedMs ?? 0);
  const belongs = async (entry: ProcessEntry) =>
    owns(entry) || (!tooOld(entry) && (await table.mentions(entry.pid, mark)));

  for (let round = 1; ; round++) {
    const left: ProcessEntry[] = [];
    for (const entry of await table.read(process.getuid?.()))
      if (!entry.zombie && (await belongs(entry))) left.push(entry);
    if (left.length === 0) return true;
    if (performance.now() > end) return false;
    for (const { pid } of left) kill(pid);
    await pause(Math.min(round, LONGEST_PAUSE_MS));
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has just gone.
  }
}
