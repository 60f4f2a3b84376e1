import { setTimeout as pause } from 'node:timers/promises';
import { expired } from '../../cursor.ts';
import type { JobKey } from '../../job-record.ts';
import type { Cursor } from '../../version.ts';
import { isNewer } from '../api/resource-version.ts';
import { changeCursor, readChangeCursor } from './job-cursor.ts';

/**
 * Changes that are remembered. Fewer: whoever follows them and was away for a moment has to list all jobs again. More:
 * memory, some 100 bytes each.
 */
const REMEMBERED = 20_000;

interface Change {
  readonly resourceVersion: string;
  readonly key: JobKey;
}

export interface ChangedKeys {
  readonly keys: readonly JobKey[];
  readonly cursor: Cursor;
}

/**
 * What changed, in the order of the watch. Every manager is told the same in the same order, so that a cursor is good at
 * each of them; only the watch counts here, because what we have just written may be ahead of what others wrote before.
 */
export class ChangeLog {
  readonly #remembered: number;
  #changes: Change[] = [];
  /** Where each job changed last. */
  readonly #last = new Map<string, string>();
  /** Of what came before this version, not everything is known. */
  #floor = '0';
  /** Up to here everything has been told. */
  #reached = '0';
  #waiting: { readonly resourceVersion: string; readonly resolve: () => void }[] = [];

  constructor(remembered = REMEMBERED) {
    this.#remembered = remembered;
  }

  /** Everything was listed at this version: what happened since the last time is not known. */
  restart(resourceVersion: string): void {
    this.#changes = [];
    this.#last.clear();
    this.#floor = resourceVersion;
    this.reach(resourceVersion);
  }

  /** The watch has come to this version. */
  reach(resourceVersion: string): void {
    if (!isNewer(resourceVersion, this.#reached)) return;
    this.#reached = resourceVersion;
    const still = this.#waiting.filter((each) => isNewer(each.resourceVersion, resourceVersion));
    const done = this.#waiting.filter((each) => !still.includes(each));
    this.#waiting = still;
    for (const { resolve } of done) resolve();
  }

  note(key: JobKey, resourceVersion: string): void {
    this.#changes.push({ resourceVersion, key });
    this.#last.set(textOf(key), resourceVersion);
    if (this.#changes.length > this.#remembered) this.#forget(Math.ceil(this.#remembered / 2));
  }

  /** Without a cursor, the cursor of now. */
  read(since: Cursor | undefined, service: string | undefined, limit: number): ChangedKeys {
    const reached = this.#reached;
    if (since === undefined) return { keys: [], cursor: changeCursor(reached) };
    const after = readChangeCursor(since);
    if (isNewer(this.#floor, after)) throw expired();
    // Another manager has heard more than this one, which will in a moment.
    if (!isNewer(reached, after)) return { keys: [], cursor: since };

    const keys: JobKey[] = [];
    for (let index = this.#above(after); index < this.#changes.length; index++) {
      const change = this.#changes[index];
      if (!change || !this.#isLast(change)) continue;
      if (service !== undefined && change.key.service !== service) continue;
      keys.push(change.key);
      if (keys.length === limit) return { keys, cursor: changeCursor(change.resourceVersion) };
    }
    return { keys, cursor: changeCursor(reached) };
  }

  /** Resolves when the watch has come to this version; false when it has not after that time. */
  async reached(resourceVersion: string, milliseconds: number): Promise<boolean> {
    if (!isNewer(resourceVersion, this.#reached)) return true;
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiter = { resourceVersion, resolve };
    this.#waiting.push(waiter);
    const done = new AbortController();
    const late = pause(milliseconds, false, { signal: done.signal, ref: false }).catch(() => false);
    try {
      return await Promise.race([promise.then(() => true), late]);
    } finally {
      done.abort();
      this.#waiting = this.#waiting.filter((each) => each !== waiter);
    }
  }

  /** The first change that is newer. */
  #above(version: string): number {
    let low = 0;
    let high = this.#changes.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (isNewer(this.#changes[middle]?.resourceVersion ?? '', version)) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  #isLast({ key, resourceVersion }: Change): boolean {
    return this.#last.get(textOf(key)) === resourceVersion;
  }

  #forget(count: number): void {
    for (const change of this.#changes.splice(0, count)) {
      this.#floor = change.resourceVersion;
      if (this.#isLast(change)) this.#last.delete(textOf(change.key));
    }
  }
}

const textOf = ({ service, id }: JobKey) => `${service}/${id}`;
