import { setTimeout as pause } from 'node:timers/promises';
import { Slots } from '../../../lib/concurrency.ts';
import { StoreError } from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { isAbsent, isInvalid, toStoreError } from '../client/api-error.ts';
import { JOB, type KubeJob, type Stored } from '../client/kinds.ts';
import type { JobCache } from './job-cache.ts';
import { type JobEntry, readJob, stateToShow, toJobStatus } from './job-object.ts';

/**
 * How long changes are collected. With a shorter time the status of a quick job is written three times instead of once; a
 * longer one shows its end later.
 */
const COLLECT_MS = 500;

/** The wait after a failed write. A shorter one fills the log; a longer one shows states later. */
const RETRY_MS = 5_000;

/** Concurrent status writes: few, because nobody waits for them. */
const AT_ONCE = 4;

export interface StatusMirrorOptions {
  readonly cache: JobCache;
  /** Reads the complete object of an entry. */
  readonly read: (entry: JobEntry) => Promise<Stored<KubeJob> | undefined>;
  /** Write final states only: without `managedBy` Kubernetes itself maintains the status of the suspended Job. */
  readonly onlyEnds: boolean;
  readonly report: (problem: unknown) => void;
  readonly retryMs?: number;
}

/**
 * Writes the state of every record to the status of its Job, for `kubectl get jobs` and other readers of Jobs. It runs in
 * the background: only the record counts, and the status can always be derived from it again.
 */
export class StatusMirror {
  readonly #api: Api;
  readonly #options: StatusMirrorOptions;
  readonly #stop = new AbortController();
  /** Uids of Jobs whose status may be stale. */
  #due = new Set<string>();
  readonly #look = (entry: JobEntry) => this.#note(entry);
  #running: Promise<void> | undefined;

  constructor(api: Api, options: StatusMirrorOptions) {
    this.#api = api;
    this.#options = options;
  }

  /** Begins with all jobs: the previous leader may have died before it wrote every status. */
  start(): void {
    const { cache } = this.#options;
    cache.onEntry.add(this.#look);
    for (const entry of cache.entries()) this.#note(entry);
    this.#running ??= this.#run();
  }

  async stop(): Promise<void> {
    this.#options.cache.onEntry.delete(this.#look);
    this.#stop.abort();
    await this.#running;
  }

  #note(entry: JobEntry): void {
    if (this.#isDue(entry)) this.#due.add(entry.uid);
  }

  #isDue({ record, shown, suspended }: JobEntry): boolean {
    if (!record || shown === 'Complete' || shown === 'Failed') return false;
    const wanted = stateToShow(record, suspended);
    return shown !== wanted && !(this.#options.onlyEnds && wanted !== 'Complete' && wanted !== 'Failed');
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    const slots = new Slots(AT_ONCE);
    while (!signal.aborted) {
      const due = this.#due;
      this.#due = new Set();
      let problem: unknown;
      const show = async (uid: string) => {
        if (signal.aborted) return;
        // A problem with one usually affects all, so the others are left for the next round.
        if (problem === undefined) problem = await this.#show(uid);
        else this.#due.add(uid);
      };
      await Promise.all([...due].map((uid) => slots.use(() => show(uid))));
      if (problem !== undefined) this.#options.report(problem);
      await pause(problem === undefined ? COLLECT_MS : (this.#options.retryMs ?? RETRY_MS), undefined, {
        signal,
      }).catch(() => undefined);
    }
  }

  /** Resolves to the problem if the write failed. */
  async #show(uid: string): Promise<unknown> {
    const { cache, read } = this.#options;
    const entry = cache.at(uid);
    if (!entry || !this.#isDue(entry)) return undefined;
    try {
      const object = await read(entry);
      const { record, suspended } = object ? readJob(object) : {};
      if (!object || !record) return undefined;
      const { namespace, name } = object.metadata;
      const status = toJobStatus(record, object.status, suspended);
      const written = await this.#api.put(JOB, { namespace, name, subresource: 'status' }, { ...object, status });
      cache.put(written);
      return undefined;
    } catch (error) {
      if (isAbsent(error)) return undefined;
      const problem = toStoreError(error, `write the status of the Job of job ${entry.id}`);
      // A finished job does not change again, so nothing else would trigger the write. A status that Kubernetes rejects as invalid is not retried.
      const code = !isInvalid(error) && problem instanceof StoreError ? problem.code : undefined;
      if (code === 'conflict' || code === 'unavailable') {
        cache.recentRecords.delete(uid);
        this.#due.add(uid);
      }
      return code === 'conflict' ? undefined : problem;
    }
  }
}
