import { type FSWatcher, watch } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

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
