import { setTimeout as pause } from 'node:timers/promises';
import { type Cursor, type JobKey, type JobRecord, type JobStore, StoreError } from '../../cluster/index.ts';

export interface StoreFollower {
  /** How a job is by now; without a record it is gone. May repeat. */
  heard(key: JobKey, record: JobRecord | undefined): void;
  /** Changes were missed: everything is to be looked at again. */
  missed(): void;
  report(problem: unknown): void;
}

/** Changes that are read at a time. */
const BATCH = 500;

/** How long to wait before a store that is away is asked again. */
const AGAIN_MS = 1_000;

/** Tells of every change of every job, whoever made it, until the signal. Resolves to the end of it once it has begun. */
export async function followStore(
  store: Pick<JobStore, 'changes' | 'onChange'>,
  follower: StoreFollower,
  signal: AbortSignal,
): Promise<{ readonly over: Promise<void> }> {
  const { cursor } = await store.changes({ limit: 1 });
  return { over: follow(store, cursor, follower, signal) };
}

async function follow(
  store: Pick<JobStore, 'changes' | 'onChange'>,
  begin: Cursor,
  follower: StoreFollower,
  signal: AbortSignal,
): Promise<void> {
  let wake = () => {};
  const ring = () => wake();
  const ends = store.onChange(ring);
  signal.addEventListener('abort', ring, { once: true });
  let cursor = begin;
  try {
    while (!signal.aborted) {
      // Before reading: what happens while it is read is not slept through.
      const { promise: rung, resolve } = Promise.withResolvers<void>();
      wake = resolve;
      try {
        const { items, cursor: next } = await store.changes({ since: cursor, limit: BATCH });
        if (signal.aborted) return;
        cursor = next;
        for (const { key, record } of items) follower.heard(key, record);
        if (items.length === 0) await rung;
      } catch (problem) {
        if (signal.aborted) return;
        if (problem instanceof StoreError && problem.code === 'expired') {
          cursor = (await store.changes({ limit: 1 }).catch(() => ({ cursor }))).cursor;
          follower.missed();
        } else follower.report(problem);
        await pause(AGAIN_MS, undefined, { signal, ref: false }).catch(() => undefined);
      }
    }
  } finally {
    signal.removeEventListener('abort', ring);
    ends();
  }
}
