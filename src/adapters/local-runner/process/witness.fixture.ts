import { execFileSync } from 'node:child_process';
import { chmodSync, closeSync, constants, mkdtempSync, openSync, readSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { removeTree } from '../attempt-files.ts';

/**
 * Detects whether any descendant of a script exists, however fast they fork and exit: all of them inherit a pipe, and the
 * kernel reports its end when the last one has exited.
 */
export function createWitness(t: TestContext) {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-witness-'));
  chmodSync(directory, 0o711);
  const pipe = join(directory, 'pipe');
  execFileSync('/bin/sh', ['-c', 'mkfifo "$1"', 'witness', pipe]);
  chmodSync(pipe, 0o666);
  const file = openSync(pipe, constants.O_RDONLY | constants.O_NONBLOCK);
  t.after(async () => {
    closeSync(file);
    await removeTree(directory);
  });
  return {
    directory,
    /** For a script: every process that it starts after this line has the pipe. */
    inherit: `exec 9>${pipe};`,
    /** True once a process with the pipe has run {@link REPORT_PRESENCE}. */
    begun: () => (tryRead(file) ?? 0) > 0,
    /** True once every process that inherited the pipe has exited. */
    allGone: () => {
      let found = tryRead(file);
      while (found) found = tryRead(file);
      return found === 0;
    },
  };
}

/** The number of bytes read; 0 at the end of the pipe; undefined if nothing can be read now. */
function tryRead(file: number): number | undefined {
  try {
    return readSync(file, Buffer.alloc(4096));
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EAGAIN') return undefined;
    throw error;
  }
}

export const REPORT_PRESENCE = 'echo here >&9';

/** For a script: runs the commands again and again, each time in a new process and session whose parent exits. */
export const forkRepeatedly = (commands = ':') => `
  export HOP='${REPORT_PRESENCE}; ${commands}; (exec setsid sh -c "$HOP") & exit 0'
  setsid sh -c "$HOP" </dev/null >/dev/null 2>&1 &`;
