import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

/** Writes a file that only its owner reads, in one stroke: whoever reads it meanwhile sees the old or the new text. */
export function writePrivateFile(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  const beside = `${path}.${process.pid}.new`;
  try {
    writeFileSync(beside, text, { mode: 0o600, flag: 'wx' });
    renameSync(beside, path);
  } finally {
    rmSync(beside, { force: true });
  }
}
