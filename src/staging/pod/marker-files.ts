import { constants, type FSWatcher, watch } from 'node:fs';
import { lstat, open } from 'node:fs/promises';
import { createServer } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { type SharedParts, WARM_PATHS } from './layout.ts';

/** The marker files of the script's wrapper. The script can change them, but harms only itself. */
export interface ScriptMarkers {
  /** When the script started; undefined if it never did. */
  startedAt(): Promise<number | undefined>;
  /** The exit code of the script and its time; undefined while the script runs. */
  exit(): Promise<{ readonly code: number; readonly at: number } | undefined>;
  /** Whether the script was asked to end. */
  stopped(): Promise<boolean>;
  /** Whether the script's container ends because everything is done. */
  left(): Promise<boolean>;
}

/** Longer than the line that the wrapper writes. */
const MOST_BYTES = 16;

/** Does not follow links and does not block on pipes. */
const FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

export function openMarkers(parts: SharedParts): ScriptMarkers {
  const clampTime = async (time: number) =>
    Math.round(Math.min(Math.max(time, await modifiedAt(parts.ready)), Date.now()));
  return {
    async startedAt() {
      const [start, exit] = await Promise.all([modifiedAt(parts.start), modifiedAt(parts.exit)]);
      return start === 0 && exit === 0 ? undefined : clampTime(start);
    },
    async exit() {
      const found = await readSmallFile(parts.exit);
      if (!found || !/^\d{1,3}\n$/.test(found.text)) return undefined;
      return { code: Number(found.text), at: await clampTime(found.at) };
    },
    stopped: async () => (await modifiedAt(parts.stop)) > 0,
    left: async () => (await modifiedAt(parts.left)) > 0,
  };
}

/** The modification time; 0 if the file does not exist. */
async function modifiedAt(path: string): Promise<number> {
  return lstat(path).then(
    ({ mtimeMs }) => Math.max(1, mtimeMs),
    () => 0,
  );
}

/**
 * The script may have replaced the file by anything: a link to one of our files, a pipe without a writer, a terabyte.
 */
async function readSmallFile(path: string): Promise<{ readonly text: string; readonly at: number } | undefined> {
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

/** Answers the kubelet's probes about the state of the script: 503 until it is reached, then 200. */
export class StageProbe implements Disposable {
  /** `GET /begun`. */
  begun = false;
  /** `GET /`. */
  ended = false;
  readonly #server = createServer(({ url }, response) => response.writeHead(this.#is(url) ? 200 : 503).end());

  /** If another process in the pod uses the port, `failed` is called and probes are not answered. */
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

/**
 * How often to check without file events. Not every file system reports them, and a changed Secret arrives late anyway.
 */
const EVERY = 1_000;

/** The same if watching failed: the number of watches per user and machine is limited, and each pod takes one. */
const EVERY_BLIND = 200;

/** The shortest time between two checks: a script may change the directory all the time. */
const LEAST_PAUSE = 10;

/** Calls `check` after each change of the directory until it returns a value. Throws when the signal aborts. */
export async function pollUntil<T>(
  directory: string,
  check: () => Promise<T | undefined>,
  signal: AbortSignal,
): Promise<T> {
  let changed = Promise.withResolvers<void>();
  const watcher = startWatching(directory, () => changed.resolve());
  try {
    for (;;) {
      signal.throwIfAborted();
      changed = Promise.withResolvers();
      const found = await check();
      if (found !== undefined) return found;
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

function startWatching(directory: string, changed: () => void): FSWatcher | undefined {
  try {
    return watch(directory, changed).on('error', changed);
  } catch {
    return undefined;
  }
}
