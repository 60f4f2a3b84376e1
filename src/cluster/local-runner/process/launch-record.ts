import {
  closeSync,
  constants,
  fstatSync,
  fsync,
  linkSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

const toDisk = promisify(fsync);

/** What is written down before a script is started. In a directory that the script cannot write to. */
export interface Launch {
  /** Counts the tries: a wrapper that is late is known by it. */
  readonly number: number;
  readonly at: number;
  readonly uid?: number;
  /** Which start of the machine it was in, where that has a name. */
  readonly boot?: string;
}

/** Files of a few words are no larger. */
const SMALL = 4096;

const BOOT = readSmall('/proc/sys/kernel/random/boot_id')?.text.trim();

/** The machine has been started since then: whatever ran is gone, and what it wrote last may be too. */
export const isOfEarlierBoot = ({ boot }: Launch) => boot !== undefined && boot !== BOOT;

/** More than one ever needs. */
const LAUNCH_BYTES = 256;

const launchIn = (state: string) => join(state, 'launch.json');

/** Where the wrapper leaves its marks. The script may write there: nothing in it is trusted with more than its own fate. */
export const marksIn = (state: string) => join(state, 'marks');
const claimIn = (state: string, number: number) => join(marksIn(state), `claim-${number}`);

export function readLaunch(state: string): Launch | undefined {
  const text = readSmall(launchIn(state))?.text;
  return text ? (JSON.parse(text) as Launch) : undefined;
}

/**
 * On the disk before the script is started: after a power cut too, one that may have run is not taken for one that has
 * not. It is the only file of an attempt of which that is asked. The claim and the exit code of its wrapper may be lost
 * then, and so may its end, but this file is removed after the end has got its name.
 */
export async function writeLaunch(state: string, launch: Launch): Promise<void> {
  // Written over, at one stroke: of one that is cut off first, a manager that is killed in between leaves an empty file.
  // The next would count from one again then, and take the wrapper that finds an old claim for the script.
  const file = openSync(launchIn(state), constants.O_WRONLY | constants.O_CREAT, 0o600);
  try {
    writeSync(file, JSON.stringify({ ...(BOOT !== undefined && { boot: BOOT }), ...launch }).padEnd(LAUNCH_BYTES));
    await toDisk(file);
  } finally {
    closeSync(file);
  }
}

/** The claim of whoever runs the script under that launch: its process id; 0 while it writes it. */
export function readClaim(state: string, number: number): number | 'void' | undefined {
  const claim = readSmall(claimIn(state, number));
  if (!claim) return undefined;
  return claim.text === VOID ? 'void' : Number(/^[1-9]\d*(?=\n)/.exec(claim.text)?.[0] ?? 0);
}

const VOID = 'void\n';

/** Makes the claim, so that nobody starts a script under that launch any more. False: somebody has. */
export function voidClaim(state: string, number: number): boolean {
  const claim = claimIn(state, number);
  const draft = join(state, `void-${number}`);
  writeFileSync(draft, VOID, { mode: 0o600 });
  try {
    linkSync(draft, claim);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST')
      return readClaim(state, number) === 'void';
    throw error;
  } finally {
    rmSync(draft);
  }
}

/** What the wrapper wrote when the script had ended; undefined before, and when the script has put something else there. */
export function readExit(state: string): { readonly code: number; readonly at: number } | undefined {
  const exit = readSmall(join(marksIn(state), 'exit'));
  if (!exit || !/^\d{1,3}\n$/.test(exit.text)) return undefined;
  return { code: Number(exit.text), at: exit.modifiedAt };
}

/** The script may have put anything there: a link to a file of ours, a pipe that nobody writes to, a terabyte. */
function readSmall(path: string): { readonly text: string; readonly modifiedAt: number } | undefined {
  let file: number;
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch {
    return undefined;
  }
  try {
    const stat = fstatSync(file);
    if (!stat.isFile() || stat.size > SMALL) return undefined;
    return { text: readFileSync(file, 'utf8'), modifiedAt: Math.round(stat.mtimeMs) };
  } finally {
    closeSync(file);
  }
}
