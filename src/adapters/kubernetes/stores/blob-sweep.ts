import { setTimeout as pause } from 'node:timers/promises';
import { Slots } from '../../../lib/concurrency.ts';
import type { Cursor } from '../../../lib/version.ts';
import { type BlobEntry, type BlobStore, StoreError } from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { JOB, type KubeJob, SECRET, type SecretObject } from '../client/kinds.ts';
import { readObject } from '../client/writes.ts';
import { RECORD, readJob } from './job-object.ts';

export interface BlobSweepOptions {
  readonly blobs: Pick<BlobStore, 'list' | 'remove'>;
  /** What this manager knows to be referenced. Called before each page. */
  readonly referenced: () => Promise<ReferencedBlobs>;
  /** Asks the API server. */
  readonly isReferenced: (suspect: SuspectBlob) => Promise<boolean>;
  readonly now: () => number;
  readonly report: (problem: unknown) => void;
  /** Called with the number of removed entries after a pass that removed any. */
  readonly onRemoved: (entries: number) => void;
  /** Milliseconds between two passes. */
  readonly intervalMs?: number;
}

/** A shorter interval lists the store more often for nothing; a longer one keeps unreferenced blobs for longer. */
const INTERVAL_MS = 30 * 60_000;

/** How many entries one pass removes and checks at most; the next pass continues from there. */
const MOST_REMOVED = 1_000;
const MOST_CHECKED = 20_000;

/** Concurrent requests to the API server: few, because other work is more urgent. */
const AT_ONCE = 4;

/**
 * Removes blobs that nothing references any more. Kubernetes removes the record of a job when its TTL is over, whether a
 * manager runs or not, and a manager may die between storing a blob and recording it. The leader runs the sweep.
 */
export class BlobSweep {
  readonly #options: BlobSweepOptions;
  readonly #stopping = new AbortController();
  #running: Promise<void> | undefined;
  /** Where the next pass continues. */
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
    const { blobs, referenced, now } = this.#options;
    let removed = 0;
    let seen = 0;
    while (removed < MOST_REMOVED && seen < MOST_CHECKED && !this.#stopping.signal.aborted) {
      const { items, next } = await blobs.list(this.#cursor).catch((error: unknown) => this.#fromTheBeginning(error));
      seen += items.length;
      removed += await this.#clear(findSuspects(items, await referenced(), now()).slice(0, MOST_REMOVED - removed));
      this.#cursor = next;
      if (next === undefined) break;
    }
    return removed;
  }

  async #fromTheBeginning(error: unknown): ReturnType<BlobStore['list']> {
    if (!(error instanceof StoreError && error.code === 'expired')) throw error;
    return this.#options.blobs.list();
  }

  async #clear(suspects: readonly SuspectBlob[]): Promise<number> {
    const { blobs, isReferenced } = this.#options;
    const slots = new Slots(AT_ONCE);
    const cleared = suspects.map((suspect) =>
      slots.use(async () => {
        if (this.#stopping.signal.aborted || (await isReferenced(suspect))) return 0;
        await blobs.remove(suspect.key);
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
      // Wait first: a new leader has more urgent work. The random part spreads the sweeps of several clusters.
      const wait = (this.#options.intervalMs ?? INTERVAL_MS) * (0.75 + Math.random() / 2);
      await pause(wait, undefined, { signal, ref: false }).catch(() => undefined);
      if (signal.aborted) return;
      try {
        const removed = await this.pass();
        if (removed > 0) this.#options.onRemoved(removed);
      } catch (error) {
        this.#options.report(error);
      }
    }
  }
}

/** A blob, and the Kubernetes object that references it if it still exists. */
export interface SuspectBlob {
  readonly key: string;
  readonly owner: 'job' | 'attempt';
  readonly namespace: string;
  readonly name: string;
}

/** Blobs that are known to be referenced. */
interface ReferencedBlobs {
  /** Keys of the events of jobs. */
  readonly events: ReadonlySet<string>;
  /** Names of attempts. */
  readonly attempts: ReadonlySet<string>;
}

/**
 * Blobs younger than this are not checked. With a shorter time a blob may belong to a job or an attempt that is just being
 * created, or the clocks of the store and the manager may differ by more; a longer one keeps unreferenced blobs for longer.
 */
const SAFE_AGE_MS = 60 * 60_000;

/** Blobs that may be left over from a removed job or attempt. Keys that the manager does not write are ignored. */
export function findSuspects(entries: readonly BlobEntry[], referenced: ReferencedBlobs, now: number): SuspectBlob[] {
  return entries
    .filter(({ putAt }) => putAt < now - SAFE_AGE_MS)
    .map(({ key }) => parseBlobKey(key))
    .filter((suspect) => suspect !== undefined)
    .filter(({ owner, key, name }) => (owner === 'job' ? !referenced.events.has(key) : !referenced.attempts.has(name)));
}

const OWNERS: Readonly<Record<string, SuspectBlob['owner']>> = { events: 'job', attempts: 'attempt' };

/** `events/<namespace>/<job>/<version>` or `attempts/<namespace>/<attempt>/<what>`. */
function parseBlobKey(key: string): SuspectBlob | undefined {
  const [folder = '', namespace, name, last, ...more] = key.split('/');
  const owner = OWNERS[folder];
  return owner && namespace && name && last && more.length === 0 ? { key, owner, namespace, name } : undefined;
}

/** Is there still, at the server, what this belongs to? A job that has another event, or none, does not need this one. */
export async function isBlobReferenced({ owner: of, key, namespace, name }: SuspectBlob, api: Api): Promise<boolean> {
  const metadata = { namespace, name };
  if (of === 'attempt') return (await readObject<SecretObject>(api, SECRET, { metadata })) !== undefined;
  const job = await readObject<KubeJob>(api, JOB, { metadata });
  return job?.metadata.labels?.[RECORD] !== undefined && readJob(job).eventBlob?.key === key;
}
