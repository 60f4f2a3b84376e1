import { setTimeout as pause } from 'node:timers/promises';
import { Slots } from '../../../lib/concurrency.ts';
import type { Cursor } from '../../../lib/version.ts';
import { type BlobEntry, type BlobStore, StoreError } from '../../../ports/index.ts';

export interface BlobSweepOptions {
  readonly shelf: Pick<BlobStore, 'list' | 'remove'>;
  /** As far as is known here. Asked before each page. */
  readonly needed: () => Promise<Needed>;
  /** What the server itself says. */
  readonly isNeeded: (suspect: Suspect) => Promise<boolean>;
  readonly now: () => number;
  readonly report: (problem: unknown) => void;
  /** Told how much was removed, if anything was. */
  readonly removed: (entries: number) => void;
  /** Milliseconds between two passes. */
  readonly intervalMs?: number;
}

/** Shorter: the store is listed more often for nothing. Longer: what nobody needs takes room longer. */
const INTERVAL_MS = 30 * 60_000;

/** The most that one pass removes, and looks at: the next one goes on from there. */
const MOST_REMOVED = 1_000;
const MOST_LOOKED_AT = 20_000;

/** Questions to the server at a time: others have more urgent ones. */
const AT_ONCE = 4;

/**
 * Removes what nobody will ever ask for from the shelf: Kubernetes removes the record of a job when its time is over, whether
 * a manager is there or not, and a manager may die between putting something there and noting that. Whoever leads does it.
 */
export class BlobSweep {
  readonly #options: BlobSweepOptions;
  readonly #stopping = new AbortController();
  #running: Promise<void> | undefined;
  /** Where the next pass goes on. */
  #cursor: Cursor | undefined;

  constructor(options: BlobSweepOptions) {
    this.#options = options;
  }

  start(): void {
    this.#running ??= this.#repeat();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  /** Resolves to how many entries were removed. */
  async pass(): Promise<number> {
    const { shelf, needed, now } = this.#options;
    let removed = 0;
    let seen = 0;
    while (removed < MOST_REMOVED && seen < MOST_LOOKED_AT && !this.#stopping.signal.aborted) {
      const { items, next } = await shelf.list(this.#cursor).catch((error: unknown) => this.#fromTheBeginning(error));
      seen += items.length;
      removed += await this.#clear(suspectsIn(items, await needed(), now()).slice(0, MOST_REMOVED - removed));
      this.#cursor = next;
      if (next === undefined) break;
    }
    return removed;
  }

  async #fromTheBeginning(error: unknown): ReturnType<BlobStore['list']> {
    if (!(error instanceof StoreError && error.code === 'expired')) throw error;
    return this.#options.shelf.list();
  }

  async #clear(suspects: readonly Suspect[]): Promise<number> {
    const { shelf, isNeeded } = this.#options;
    const slots = new Slots(AT_ONCE);
    const cleared = suspects.map((suspect) =>
      slots.use(async () => {
        if (this.#stopping.signal.aborted || (await isNeeded(suspect))) return 0;
        await shelf.remove(suspect.key);
        return 1;
      }),
    );
    const outcomes = await Promise.allSettled(cleared);
    const failed = outcomes.find((outcome) => outcome.status === 'rejected');
    if (failed) this.#options.report(failed.reason);
    return outcomes.reduce((sum, outcome) => sum + (outcome.status === 'fulfilled' ? outcome.value : 0), 0);
  }

  async #repeat(): Promise<void> {
    const { signal } = this.#stopping;
    for (;;) {
      // Not at once: whoever begins to lead has more urgent things to do. Not all clusters at the same moment.
      const wait = (this.#options.intervalMs ?? INTERVAL_MS) * (0.75 + Math.random() / 2);
      await pause(wait, undefined, { signal, ref: false }).catch(() => undefined);
      if (signal.aborted) return;
      try {
        const removed = await this.pass();
        if (removed > 0) this.#options.removed(removed);
      } catch (error) {
        this.#options.report(error);
      }
    }
  }
}

/** Something on the shelf, and the object of Kubernetes without which nobody will ask for it. */
export interface Suspect {
  readonly key: string;
  readonly of: 'job' | 'attempt';
  readonly namespace: string;
  readonly name: string;
}

/** What is known to be needed still. */
interface Needed {
  /** Keys of the events of jobs. */
  readonly events: ReadonlySet<string>;
  /** Names of attempts. */
  readonly attempts: ReadonlySet<string>;
}

/**
 * How long something may lie there before it is asked whose it is. Shorter: it may be of a job or an attempt that is only
 * being made, or the clocks of the store and the manager may differ by more. Longer: what nobody needs takes room longer.
 */
const SAFE_AGE_MS = 60 * 60_000;

/** What may have been left by something that is gone. What nobody here has put is none of it. */
export function suspectsIn(entries: readonly BlobEntry[], needed: Needed, now: number): Suspect[] {
  return entries
    .filter(({ putAt }) => putAt < now - SAFE_AGE_MS)
    .map(({ key }) => suspectOf(key))
    .filter((suspect) => suspect !== undefined)
    .filter(({ of, key, name }) => (of === 'job' ? !needed.events.has(key) : !needed.attempts.has(name)));
}

const ROOMS: Readonly<Record<string, Suspect['of']>> = { events: 'job', attempts: 'attempt' };

/** `events/<namespace>/<job>/<version>` or `attempts/<namespace>/<attempt>/<what>`. */
function suspectOf(key: string): Suspect | undefined {
  const [room = '', namespace, name, last, ...more] = key.split('/');
  const of = ROOMS[room];
  return of && namespace && name && last && more.length === 0 ? { key, of, namespace, name } : undefined;
}
