import { setTimeout as pause } from 'node:timers/promises';
import type { JobRecord } from '../../../model/job/index.ts';
import { isRace } from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { toStoreError } from '../client/api-error.ts';
import type { Stored } from '../client/kinds.ts';
import { replaceObject } from '../client/writes.ts';
import { ELSEWHERE, isElsewhere, type KueueCache, WORKLOAD, type Workload } from '../kueue/index.ts';
import type { JobCache } from './job-cache.ts';
import type { JobEntry } from './job-object.ts';

/**
 * How long changes are collected. Shorter: a job that a member gives back at once is written twice for nothing. Longer:
 * quota stays taken by what runs elsewhere.
 */
const COLLECT_MS = 500;

export interface OutOfQueueOptions {
  readonly cache: JobCache;
  readonly picture: Pick<KueueCache, 'workloadOf' | 'put' | 'onWorkload'>;
  readonly report: (problem: unknown) => void;
}

/**
 * Has jobs that another cluster runs give back the quota that they have here, and lets them in line again when they come
 * back: Kueue does that for Workloads that are not active. What is to be done follows from the records, so whoever leads
 * next goes on with it. While a job is only offered nothing is done: that is over in seconds.
 */
export class OutOfQueue {
  readonly #api: Api;
  readonly #options: OutOfQueueOptions;
  readonly #stop = new AbortController();
  /** Uids of Jobs that may be in a queue and should not, or the other way round. */
  #due = new Set<string>();
  readonly #look = (entry: JobEntry) => this.#note(entry);
  readonly #lookAt = (uid: string) => this.#note(this.#options.cache.at(uid));
  #running: Promise<void> | undefined;

  constructor(api: Api, options: OutOfQueueOptions) {
    this.#api = api;
    this.#options = options;
  }

  start(): void {
    const { cache, picture } = this.#options;
    cache.onEntry.add(this.#look);
    picture.onWorkload.add(this.#lookAt);
    for (const entry of cache.entries()) this.#note(entry);
    this.#running ??= this.#run();
  }

  async stop(): Promise<void> {
    const { cache, picture } = this.#options;
    cache.onEntry.delete(this.#look);
    picture.onWorkload.delete(this.#lookAt);
    this.#stop.abort();
    await this.#running;
  }

  #note(entry: JobEntry | undefined): void {
    if (entry && this.#change(entry)) this.#due.add(entry.uid);
  }

  #change({ uid, queue, record }: JobEntry): 'leave' | 'return' | undefined {
    return queue === undefined || !record ? undefined : toChange(record, this.#options.picture.workloadOf(uid));
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const due = this.#due;
      this.#due = new Set();
      for (const uid of due) {
        if (signal.aborted) return;
        await this.#settle(uid).catch((problem: unknown) => {
          this.#due.add(uid);
          if (!isRace(problem)) this.#options.report(problem);
        });
      }
      await pause(COLLECT_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  async #settle(uid: string): Promise<void> {
    const { cache, picture } = this.#options;
    const entry = cache.at(uid);
    const change = entry && this.#change(entry);
    const known = picture.workloadOf(uid);
    if (!change || !known) return;
    const { namespace, name } = known.metadata;
    const workload = await this.#api.get<Workload>(WORKLOAD, { namespace, name }).catch((error: unknown) => {
      throw toStoreError(error, `read Workload ${name} in namespace ${namespace}`);
    });
    if (workload?.metadata.uid !== known.metadata.uid) return;
    const written = await replaceObject(this.#api, WORKLOAD, changed(workload, change), workload);
    if (typeof written === 'object') picture.put(written);
    else if (written === 'conflict') this.#due.add(uid);
  }
}

/** What is to be done with the Workload of a job, as both are. */
export function toChange(
  { state, taken }: Pick<JobRecord, 'state' | 'taken'>,
  workload: Pick<Workload, 'metadata' | 'spec' | 'status'> | undefined,
): 'leave' | 'return' | undefined {
  if (!workload || isOver(workload)) return undefined;
  const isAway = !taken && (state === 'delegated' || state === 'committing');
  if (isAway) return workload.spec.active === false ? undefined : 'leave';
  // One that somebody else has deactivated is theirs.
  return state === 'queued' && isElsewhere(workload) ? 'return' : undefined;
}

const isOver = ({ status }: Pick<Workload, 'status'>) =>
  status?.conditions?.some(({ type, status: holds }) => type === 'Finished' && holds === 'True') ?? false;

function changed(workload: Stored<Workload>, change: 'leave' | 'return'): Stored<Workload> {
  const { [ELSEWHERE]: _, ...annotations } = workload.metadata.annotations ?? {};
  const marked = change === 'leave' ? { ...annotations, [ELSEWHERE]: 'true' } : annotations;
  return {
    ...workload,
    metadata: { ...workload.metadata, annotations: marked },
    spec: { ...workload.spec, active: change === 'return' },
  };
}
