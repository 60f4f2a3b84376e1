import { setTimeout as pause } from 'node:timers/promises';
import type { JobRecord } from '../../../model/job/index.ts';
import { isRace } from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { toStoreError } from '../client/api-error.ts';
import type { Stored } from '../client/kinds.ts';
import { replaceObject } from '../client/writes.ts';
import {
  DELEGATED_ANNOTATION,
  evictionReason,
  isDelegated,
  type Kueue,
  type KueueCache,
  WORKLOAD,
  type Workload,
  waitingReason,
} from '../kueue/index.ts';
import type { JobCache } from './job-cache.ts';
import { isFinalJob, type JobEntry } from './job-object.ts';

/**
 * How long changes are collected. With a shorter time a job that a member gives back at once is written twice for nothing;
 * a longer one keeps the quota of delegated jobs occupied for longer.
 */
const COLLECT_MS = 500;

export interface WorkloadReconcilerOptions {
  readonly cache: JobCache;
  readonly kueueCache: Pick<KueueCache, 'workloadFor' | 'put' | 'onWorkload'>;
  readonly report: (problem: unknown) => void;
}

/**
 * Deactivates the Workloads of delegated jobs, so that Kueue gives their quota to others, and activates them when the jobs
 * come back to the queue. The work follows from the records, so the next leader continues it. While a job is only being
 * offered nothing happens, because an offer takes seconds.
 */
export class WorkloadReconciler {
  readonly #api: Api;
  readonly #options: WorkloadReconcilerOptions;
  readonly #stop = new AbortController();
  /** Uids of Jobs whose Workload may have to change. */
  #due = new Set<string>();
  readonly #look = (entry: JobEntry) => this.#note(entry);
  readonly #lookAt = (uid: string) => this.#note(this.#options.cache.at(uid));
  #running: Promise<void> | undefined;

  constructor(api: Api, options: WorkloadReconcilerOptions) {
    this.#api = api;
    this.#options = options;
  }

  start(): void {
    const { cache, kueueCache } = this.#options;
    cache.onEntry.add(this.#look);
    kueueCache.onWorkload.add(this.#lookAt);
    for (const entry of cache.entries()) this.#note(entry);
    this.#running ??= this.#run();
  }

  async stop(): Promise<void> {
    const { cache, kueueCache } = this.#options;
    cache.onEntry.delete(this.#look);
    kueueCache.onWorkload.delete(this.#lookAt);
    this.#stop.abort();
    await this.#running;
  }

  #note(entry: JobEntry | undefined): void {
    if (entry && this.#change(entry)) this.#due.add(entry.uid);
  }

  #change({ uid, queue, record }: JobEntry): 'leave' | 'return' | undefined {
    return queue === undefined || !record
      ? undefined
      : workloadChange(record, this.#options.kueueCache.workloadFor(uid));
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
    const { cache, kueueCache } = this.#options;
    const entry = cache.at(uid);
    const change = entry && this.#change(entry);
    const known = kueueCache.workloadFor(uid);
    if (!change || !known) return;
    const { namespace, name } = known.metadata;
    const workload = await this.#api.get<Workload>(WORKLOAD, { namespace, name }).catch((error: unknown) => {
      throw toStoreError(error, `read Workload ${name} in namespace ${namespace}`);
    });
    if (workload?.metadata.uid !== known.metadata.uid) return;
    const written = await replaceObject(this.#api, WORKLOAD, changed(workload, change), workload);
    if (typeof written === 'object') kueueCache.put(written);
    else if (written === 'conflict') this.#due.add(uid);
  }
}

/** How the Workload of a job has to change. */
export function workloadChange(
  { state, taken }: Pick<JobRecord, 'state' | 'taken'>,
  workload: Pick<Workload, 'metadata' | 'spec' | 'status'> | undefined,
): 'leave' | 'return' | undefined {
  if (!workload || isOver(workload)) return undefined;
  const isAway = !taken && (state === 'delegated' || state === 'committing');
  if (isAway) return workload.spec.active === false ? undefined : 'leave';
  // A Workload that an operator has deactivated stays as it is.
  return state === 'queued' && isDelegated(workload) ? 'return' : undefined;
}

const isOver = ({ status }: Pick<Workload, 'status'>) =>
  status?.conditions?.some(({ type, status: holds }) => type === 'Finished' && holds === 'True') ?? false;

function changed(workload: Stored<Workload>, change: 'leave' | 'return'): Stored<Workload> {
  const { [DELEGATED_ANNOTATION]: _, ...annotations } = workload.metadata.annotations ?? {};
  const marked = change === 'leave' ? { ...annotations, [DELEGATED_ANNOTATION]: 'true' } : annotations;
  return {
    ...workload,
    metadata: { ...workload.metadata, annotations: marked },
    spec: { ...workload.spec, active: change === 'return' },
  };
}

/**
 * Why Kueue does not let a job start or continue; undefined when it does. If Kueue is disabled, nothing is suspended,
 * whatever the Job says.
 */
export function suspensionReason(
  { uid, suspended, queue }: Pick<JobEntry, 'uid' | 'suspended' | 'queue'>,
  { state }: Pick<JobRecord, 'state'>,
  kueue: Pick<Kueue, 'workloadFor'> | undefined,
): string | undefined {
  if (!kueue || queue === undefined || isFinalJob(state)) return undefined;
  const workload = kueue.workloadFor(uid);
  if (state === 'running') return suspended ? evictionReason(queue, workload) : undefined;
  // A job that comes back from another cluster is suspended soon, if it is not yet.
  const held = suspended || (state === 'queued' && isDelegated(workload));
  return held ? waitingReason(queue, workload) : undefined;
}
