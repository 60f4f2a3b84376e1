import { chmodSync, lstatSync, mkdirSync, realpathSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Where directories for jobs are kept when the data directory lies where only its owner may go. Survives a reboot. */
const ELSEWHERE = '/var/tmp';

/**
 * The directory of the runs of jobs: beside the other data, if scripts that run as other users can get there. A manager
 * that is root often has its data in a home where nobody else may go; then it is a directory of its own elsewhere.
 */
export function runsDirectory(dataDir: string, otherUsers: boolean, instance: string): string {
  const beside = join(realpathSync(dataDir), 'runs');
  if (!otherUsers) return beside;
  if (ancestors(dirname(dirname(beside))).every(isOpen)) {
    // They may go through, and see nothing: what is in it is readable for the manager alone.
    chmodSync(dataDir, 0o711);
    return beside;
  }
  const elsewhere = join(ELSEWHERE, `oscar-${instance}`);
  mkdirSync(elsewhere, { recursive: true, mode: 0o711 });
  const { uid } = lstatSync(elsewhere);
  if (!lstatSync(elsewhere).isDirectory() || uid !== process.getuid?.()) {
    throw new Error(`${elsewhere} is needed for the files of jobs, and somebody else made it: remove it`);
  }
  return elsewhere;
}

function ancestors(path: string): string[] {
  const parent = dirname(path);
  return parent === path ? [path] : [path, ...ancestors(parent)];
}

const isOpen = (path: string) => (statSync(path).mode & 0o001) !== 0;
