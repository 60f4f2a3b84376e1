import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { readExit } from './launch-record.ts';
import type { RunningScript } from './process-run.ts';
import type { ProcessEntry } from './process-table.ts';

/** What cannot be ended, as a process in a broken disk, is not waited for longer. */
const GIVE_UP_MS = 5_000;

/**
 * Ends the wrapper and all that the script has started, those that left its session too: by their user if it has one of
 * its own, otherwise by the output directory in their environment, which no other script has (contract §8.2).
 */
export async function endEveryone(
  script: Pick<RunningScript, 'directory' | 'table' | 'uid' | 'child'>,
  owns: (entry: ProcessEntry) => boolean = (entry) => entry.uid === script.uid,
): Promise<void> {
  const { table, uid, child, directory } = script;
  const over = new AbortController();
  if (child?.pid !== undefined && child.exitCode === null && child.signalCode === null) {
    // Most scripts leave nothing behind: then one look at the machine is enough.
    kill(-child.pid);
    await Promise.race([
      once(child, 'exit'),
      pause(GIVE_UP_MS, undefined, { signal: over.signal }).catch(() => undefined),
    ]);
    over.abort();
  }
  // The wrapper has seen to it when the script ended; if it was made to end, there was no wrapper any more.
  if (uid !== undefined && !readExit(directory.state)) await killAllOf(uid);
  const mark = `TMP_OUTPUT_DIR=${directory.output}\0`;
  const belongs = async (entry: ProcessEntry) =>
    owns(entry) || (uid === undefined && entry.uid === process.getuid?.() && (await table.mentions(entry.pid, mark)));

  const end = Date.now() + GIVE_UP_MS;
  for (let look = 1; Date.now() < end; look++) {
    const left: ProcessEntry[] = [];
    for (const entry of await table.read()) if (!entry.zombie && (await belongs(entry))) left.push(entry);
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
