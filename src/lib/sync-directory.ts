import { closeSync, fsyncSync, openSync } from 'node:fs';

/** A name in a directory is only as durable as the directory. */
export function syncDirectory(path: string): void {
  const handle = openSync(path, 'r');
  fsyncSync(handle);
  closeSync(handle);
}
