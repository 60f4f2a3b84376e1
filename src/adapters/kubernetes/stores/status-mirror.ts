import { setTimeout as pause } from 'node:timers/promises';
import { Slots } from '../../../lib/concurrency.ts';
import { StoreError } from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { isAbsent, isInvalid, toStoreError } from '../client/api-error.ts';
import { JOB, type KubeJob, type Stored } from '../client/kinds.ts';
import type { JobCache } from './job-cache.ts';
import { type JobEntry, readJob, stateToShow, toJobStatus } from './job-object.ts';

/**
 * How long changes are collected. Shorter: a quick job is written three times instead of once. Longer: people see its end
 * later.
 */
const COLLECT_MS = 500;

/** How long it waits after what could not be shown: each time is a line in the log. */
const RETRY_MS = 5_000;

/** Statuses that are written at once: nobody waits for them, so they take few of the connections. */
const AT_ONCE = 4;

export interface StatusMirrorOptions {
  readonly cache: JobCache;
  /** The whole object of an entry. */
  readonly read: (entry: JobEntry) => Promise<Stored<KubeJob> | undefined>;
  /** Where Kubernetes keeps the status up itself, as that of a suspended Job, only how it ended is written. */
  readonly onlyEnds: boolean;
  readonly report: (problem: unknown) => void;
  readonly retryMs?: number;
}

/**
 * Shows every record in the status of its Job, so that `kubectl get jobs` and whatever else reads Jobs are told the truth.
 * In the background: the record is what counts, and what is shown can always be made from it again.
 */
export class StatusMirror {
  readonly #api: Api;
  readonly #options: StatusMirrorOptions;
  readonly #stop = new AbortController();
  /** Uids of those whose status may be old. */
  #due = new Set<string>();
  readonly #look = (entry: JobEntry) => this.#note(entry);
  #running: Promise<void> | undefined;

  constructor(api: Api, options: StatusMirrorOptions) {
    this.#api = api;
    this.#options = options;
  }

  /** With all there are: whoever did this before may have died in the middle. */
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
        // What is in the way of one is most often in the way of all: the others are not tried for nothing.
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

  /** Resolves to why it could not. */
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
      const problem = toStoreError(error, `show how the job ${entry.id} is in its Job`);
      // Whoever ends does not change again: nothing but this would show it. What Kubernetes does not take it will not take later.
      const code = !isInvalid(error) && problem instanceof StoreError ? problem.code : undefined;
      if (code === 'conflict' || code === 'unavailable') {
        cache.recentRecords.delete(uid);
        this.#due.add(uid);
      }
      return code === 'conflict' ? undefined : problem;
    }
  }
}
