import { constants } from 'node:fs';
import { lstat, open } from 'node:fs/promises';
import type { SharedParts } from './layout.ts';

/** The marks that the wrapper of the script leaves. The script may change them: nobody but itself is harmed by it. */
export interface Marks {
  /** When the script began; undefined if it never did. */
  startedAt(): Promise<number | undefined>;
  /** Its end; undefined as long as there is none. */
  exit(): Promise<{ readonly code: number; readonly at: number } | undefined>;
  /** Does somebody want it to go? */
  stopped(): Promise<boolean>;
  /** Does its container end, everything being done? */
  left(): Promise<boolean>;
}

/** More than the line of the wrapper ever is. */
const MOST_BYTES = 16;

/** Not through a link, and without waiting at a pipe. */
const FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

export function marksIn(parts: SharedParts): Marks {
  const believed = async (time: number) => Math.round(Math.min(Math.max(time, await timeOf(parts.ready)), Date.now()));
  return {
    async startedAt() {
      const [start, exit] = await Promise.all([timeOf(parts.start), timeOf(parts.exit)]);
      return start === 0 && exit === 0 ? undefined : believed(start);
    },
    async exit() {
      const found = await readSmall(parts.exit);
      if (!found || !/^\d{1,3}\n$/.test(found.text)) return undefined;
      return { code: Number(found.text), at: await believed(found.at) };
    },
    stopped: async () => (await timeOf(parts.stop)) > 0,
    left: async () => (await timeOf(parts.left)) > 0,
  };
}

/** When it was changed last; 0 if it is not there. */
async function timeOf(path: string): Promise<number> {
  return lstat(path).then(
    ({ mtimeMs }) => Math.max(1, mtimeMs),
    () => 0,
  );
}

/** The script may have put anything there: a link to a file of ours, a pipe that nobody writes to, a terabyte. */
async function readSmall(path: string): Promise<{ readonly text: string; readonly at: number } | undefined> {
  const file = await open(path, FLAGS).catch(() => undefined);
  if (!file) return undefined;
  try {
    const stat = await file.stat();
    if (!stat.isFile() || stat.size > MOST_BYTES) return undefined;
    const { bytesRead, buffer } = await file.read(Buffer.alloc(MOST_BYTES), 0, MOST_BYTES, 0);
    return { text: buffer.toString('latin1', 0, bytesRead), at: stat.mtimeMs };
  } catch {
    return undefined;
  } finally {
    await file.close();
  }
}
