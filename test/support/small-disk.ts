import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

const run = promisify(execFile);

export const MIB = 1024 * 1024;

/** A disk for one test, and the processes to stop before it is unmounted. */
export interface SmallDisk {
  readonly path: string;
  readonly stack: AsyncDisposableStack;
}

/** Runs a test on a real file system that it can fill; skips it where none can be mounted. */
export function diskTest(name: string, work: (disk: SmallDisk) => Promise<void>, { size = '96m' } = {}): void {
  test(name, { timeout: 600_000 }, async (t) => {
    await using stack = new AsyncDisposableStack();
    const path = mkdtempSync(join(tmpdir(), 'oscar-full-disk-'));
    // A manager that stops may still create an empty directory after the disk is gone.
    stack.defer(() => rmSync(path, { recursive: true, force: true }));
    try {
      // Scripts run as other users, who must be able to pass through.
      await run('mount', ['-t', 'tmpfs', '-o', `size=${size},mode=0711`, 'tmpfs', path]);
    } catch (error) {
      t.skip(`NOT TESTED: a small disk can only be mounted by root: ${String(error).split('\n')[0]}`);
      return;
    }
    stack.defer(async () => void (await run('umount', ['--lazy', path])));
    await work({ path, stack });
  });
}

/** Other files on the disk. */
export class DiskFiller {
  readonly #path: string;

  constructor(disk: string) {
    this.#path = join(disk, 'filler');
  }

  /** Fills the disk except for this many bytes. */
  fillBut(left: number): void {
    const file = openSync(this.#path, 'a');
    try {
      for (let size = MIB; size >= 1; ) {
        const { bavail, bsize } = statfsSync(this.#path);
        if (bavail * bsize <= left) return;
        try {
          writeSync(file, Buffer.alloc(Math.min(size, Math.max(1, bavail * bsize - left))));
        } catch (error) {
          assert.equal((error as NodeJS.ErrnoException).code, 'ENOSPC');
          size = Math.floor(size / 2);
        }
      }
    } finally {
      closeSync(file);
    }
  }

  remove(): void {
    rmSync(this.#path, { force: true });
  }
}
