import { constants, type FSWatcher, watch } from 'node:fs';
import { lstat, open } from 'node:fs/promises';
import { createServer } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { type SharedParts, WARM_PATHS } from './layout.ts';

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

/** Tells the kubelet how far the script is: 503 until it is so, 200 from then on. */
export class StageProbe implements Disposable {
  /** `GET /begun`. */
  begun = false;
  /** `GET /`. */
  ended = false;
  readonly #server = createServer(({ url }, response) => response.writeHead(this.#is(url) ? 200 : 503).end());

  /** Somebody in the pod may have taken the port: then nobody tells. */
  listen(port: number, failed: (error: Error) => void): void {
    if (!this.#server.listening) this.#server.on('error', failed).listen(port);
  }

  [Symbol.dispose](): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  #is(url: string | undefined): boolean {
    if (url === WARM_PATHS.up) return true;
    return url === WARM_PATHS.begun ? this.begun : this.ended;
  }
}

/** Between two looks when nothing seems to happen. Not every file system tells, and a change of a Secret is told late anyway. */
const EVERY = 1_000;

/** The same where nobody tells: a user may have only so many watches on one machine, and each pod takes one. */
const EVERY_BLIND = 200;

/** Between two looks when something happens all the time: the directory may be one that a script plays with. */
const LEAST_PAUSE = 10;

/** Looks whenever something happens in the directory, until something is seen. Throws when the signal says so. */
export async function untilSeen<T>(
  directory: string,
  look: () => Promise<T | undefined>,
  signal: AbortSignal,
): Promise<T> {
  let changed = Promise.withResolvers<void>();
  const watcher = watching(directory, () => changed.resolve());
  try {
    for (;;) {
      signal.throwIfAborted();
      changed = Promise.withResolvers();
      const seen = await look();
      if (seen !== undefined) return seen;
      const over = new AbortController();
      const either = AbortSignal.any([signal, over.signal]);
      const wait = pause(watcher ? EVERY : EVERY_BLIND, undefined, { signal: either });
      await Promise.race([changed.promise, wait]).finally(() => over.abort());
      await pause(LEAST_PAUSE);
    }
  } finally {
    watcher?.close();
  }
}

function watching(directory: string, changed: () => void): FSWatcher | undefined {
  try {
    return watch(directory, changed).on('error', changed);
  } catch {
    return undefined;
  }
}
