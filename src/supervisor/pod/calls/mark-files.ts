import { chmod, lstat, rename, writeFile } from 'node:fs/promises';

/** Is anything there, whatever it is? */
export async function isThere(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}

/** Writes a file that appears as a whole. */
export async function putWhole(path: string, text: string, mode: number): Promise<void> {
  const draft = `${path}.new`;
  await writeFile(draft, text);
  // Not when it is made: what that gives is cut by a mask.
  await chmod(draft, mode);
  await rename(draft, path);
}
