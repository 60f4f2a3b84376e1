import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';

/** A new directory that is removed after the test. */
export function temporaryDirectory(t: Pick<TestContext, 'after'>): string {
  const path = makeTemporaryDirectory();
  t.after(() => removeTemporaryDirectory(path));
  return path;
}

export function makeTemporaryDirectory(): string {
  return mkdtempSync(join(tmpdir(), 'oscar-local-'));
}

export function removeTemporaryDirectory(path: string): void {
  rmSync(path, { recursive: true, force: true });
}
