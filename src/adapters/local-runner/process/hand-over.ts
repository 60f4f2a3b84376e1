import { chmodSync, chownSync, lchownSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type AttemptDirectory, LaunchError } from '../launcher.ts';

/** Directories of a script that only processes need. */
export const homeIn = (state: string) => join(state, 'home');
export const temporaryIn = (state: string) => join(state, 'tmp');

const ENTER = 0o710;
const GROUP_READS = 0o640;
const OTHERS_ENTER = 0o001;

/** Makes the directories of a script, and makes them its own if it has a user of its own. */
export function handOver(directory: AttemptDirectory, uid: number | undefined): void {
  const { root, script, input, output, state } = directory;
  const own = [homeIn(state), temporaryIn(state)];
  for (const path of own) mkdirSync(path, { recursive: true, mode: 0o700 });
  if (uid === undefined) return;
  checkWay(root);
  // The script may go through, and change nothing: the files of the manager lie beside those of the script.
  for (const path of [root, state]) {
    chownSync(path, process.getuid?.() ?? 0, uid);
    chmodSync(path, ENTER);
  }
  chownSync(script, process.getuid?.() ?? 0, uid);
  chmodSync(script, GROUP_READS);
  for (const path of [...own, input, output]) give(path, uid);
}

function give(path: string, uid: number): void {
  lchownSync(path, uid, uid);
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    if (entry.isDirectory()) give(join(path, entry.name), uid);
    else lchownSync(join(path, entry.name), uid, uid);
  }
}

/** Another user must be able to go where its files are. */
function checkWay(root: string): void {
  for (let path = dirname(root); ; path = dirname(path)) {
    if ((statSync(path).mode & OTHERS_ENTER) === 0) {
      const message = `scripts run as users of their own, who cannot enter ${path}: chmod o+x ${path}, or choose another directory`;
      throw new LaunchError('StartFailed', message);
    }
    if (path === dirname(path)) return;
  }
}
