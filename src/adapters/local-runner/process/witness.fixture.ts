import { execFileSync } from 'node:child_process';
import { chmodSync, closeSync, constants, mkdtempSync, openSync, readSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { removeTree } from '../attempt-files.ts';

/**
 * Tells whether any descendant of a script exists, however fast they fork and exit: all of them inherit a pipe, and the
 * kernel reports its end when the last one is gone.
 */
export function makeWitness(t: TestContext) {
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
    /** For a script: what it starts from here on is seen. */
    inherit: `exec 9>${pipe};`,
    /** Has a process with the pipe said {@link HERE}? */
    begun: () => (look(file) ?? 0) > 0,
    /** Is every process gone that inherited the pipe? */
    allGone: () => {
      let found = look(file);
      while (found) found = look(file);
      return found === 0;
    },
  };
}

/** Bytes that were there to be read; 0: the end; undefined: none now. */
function look(file: number): number | undefined {
  try {
    return readSync(file, Buffer.alloc(4096));
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EAGAIN') return undefined;
    throw error;
  }
}

export const HERE = 'echo here >&9';

/** For a script: runs the commands again and again, each time in a new process and a new session whose parent exits. */
export const hop = (commands = ':') => `
  export HOP='${HERE}; ${commands}; (exec setsid sh -c "$HOP") & exit 0'
  setsid sh -c "$HOP" </dev/null >/dev/null 2>&1 &`;
