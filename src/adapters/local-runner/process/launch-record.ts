import { closeSync, constants, fstatSync, fsync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

const toDisk = promisify(fsync);

/** What is written down before a script is started. Kept where a script with a user of its own cannot write. */
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

/**
 * The file of one launch. Lines are appended to it, by the wrapper over a descriptor that it inherits, and by a manager. The
 * first one decides whether the script runs: the process id of its wrapper, or `void`. The wrapper adds `exit <code>`.
 * A script with a user of its own can neither open nor replace it.
 */
export const launchFile = (state: string, number: number) => join(state, `launch-${number}`);

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

/** Who runs the script under that launch: the process id of its wrapper; 0 when the line does not tell. */
export function readClaim(state: string, number: number): number | 'void' | undefined {
  const text = readSmall(launchFile(state, number))?.text;
  if (!text) return undefined;
  return text.startsWith(VOID) ? 'void' : Number(/^[1-9]\d*(?=\n)/.exec(text)?.[0] ?? 0);
}

const VOID = 'void\n';

/** Makes the claim, so that nobody starts a script under that launch any more. False: somebody has. */
export function voidClaim(state: string, number: number): boolean {
  // Not behind the line of a wrapper: when the file was written to last tells when the script ended.
  if (readClaim(state, number) === undefined) append(launchFile(state, number), VOID);
  return readClaim(state, number) === 'void';
}

/** Does nothing to what is no plain file: only a script that runs as the manager does can have put it there. */
function append(path: string, line: string): void {
  let file: number;
  try {
    file = openSync(path, APPEND, 0o600);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'ELOOP' || code === 'ENXIO' || code === 'EISDIR') return;
    throw error;
  }
  try {
    if (fstatSync(file).isFile()) writeSync(file, line);
  } finally {
    closeSync(file);
  }
}

const { O_WRONLY, O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = constants;
const APPEND = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK;

/** What the wrapper wrote when the script had ended; undefined before. */
export function readExit(state: string, number: number): { readonly code: number; readonly at: number } | undefined {
  const launch = readSmall(launchFile(state, number));
  const code = /^exit (\d{1,3})$/m.exec(launch?.text ?? '')?.[1];
  return launch && code !== undefined ? { code: Number(code), at: launch.modifiedAt } : undefined;
}

/** A script that runs as the manager does may have put anything there: a link to a file of ours, a pipe that nobody writes to, a terabyte. */
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
