import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { readExit } from './launch-record.ts';
import type { RunningScript } from './process-run.ts';
import type { ProcessEntry } from './process-table.ts';

/** What cannot be ended, as a process in a broken disk, is not waited for longer. */
const GIVE_UP_MS = 5_000;

/** Clocks that tell when processes were started are read at different times, and rounded. */
const ROUNDING_MS = 1_000;

/**
 * Ends the wrapper and all that the script has started, those that left its session too: by their user if it has one of
 * its own, otherwise by the output directory in their environment, which no other script has (contract §8.2). Only
 * processes of that user are looked at: whoever became another one has left its group too, or ends with it.
 */
export async function endEveryone(
  script: Pick<RunningScript, 'directory' | 'table' | 'uid' | 'started' | 'startedMs'>,
  owns: (entry: ProcessEntry) => boolean = (entry) => entry.uid === script.uid,
): Promise<void> {
  const { table, uid, started, directory, startedMs } = script;
  const over = new AbortController();
  if (started?.told) {
    // Most scripts leave nothing behind: then one look at the machine is enough.
    kill(-started.pid);
    await Promise.race([started.end, pause(GIVE_UP_MS, undefined, { signal: over.signal }).catch(() => undefined)]);
    over.abort();
  }
  // The wrapper has seen to it when the script ended; if it was made to end, there was no wrapper any more.
  if (uid !== undefined && !readExit(directory.state)) await killAllOf(uid);
  const mark = `TMP_OUTPUT_DIR=${directory.output}\0`;
  // Nobody is older than the script that started them, and to look at an environment costs more than all the rest.
  const tooOld = (entry: ProcessEntry) => entry.startedMs > 0 && entry.startedMs + ROUNDING_MS < (startedMs ?? 0);
  const belongs = async (entry: ProcessEntry) =>
    owns(entry) || (uid === undefined && !tooOld(entry) && (await table.mentions(entry.pid, mark)));

  const end = Date.now() + GIVE_UP_MS;
  for (let look = 1; Date.now() < end; look++) {
    const left: ProcessEntry[] = [];
    for (const entry of await table.read(uid ?? process.getuid?.()))
      if (!entry.zombie && (await belongs(entry))) left.push(entry);
    if (left.length === 0) break;
    for (const { pid } of left) kill(pid);
    if (uid !== undefined) await killAllOf(uid);
    await pause(look);
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has just gone.
  }
}

/** Nobody of that user can fork in between. */
async function killAllOf(uid: number): Promise<void> {
  const killer = spawn('/bin/sh', ['-c', 'kill -KILL -1'], { uid, gid: uid, stdio: 'ignore', env: {} });
  await once(killer, 'exit').catch(() => undefined);
}
