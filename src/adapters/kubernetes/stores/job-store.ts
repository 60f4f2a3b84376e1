import { Slots } from '../../../lib/concurrency.ts';
import type { Page, Version } from '../../../lib/version.ts';
import type { JobKey, JobProgress, JobRecord, JobState, NewJob } from '../../../model/job/index.ts';
import type { Service } from '../../../model/service/index.ts';
import {
  type Acceptance,
  type BlobStore,
  type ChangeQuery,
  isRace,
  type JobChanges,
  type JobQuery,
  type JobStore,
  StoreError,
  type UsageRow,
} from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { toStoreError } from '../client/api-error.ts';
import { Informer, type InformerOptions } from '../client/informer.ts';
import { JOB, type KubeJob } from '../client/kinds.ts';
import { createObject, replaceObject } from '../client/writes.ts';
import type { Kueue } from '../kueue/index.ts';
import { jobObjectName } from '../objects/labels.ts';
import { EventBlobs } from './event-blobs.ts';
import { JobCache } from './job-cache.ts';
import { LOWEST, listCursor, listPosition, type Ordered, readListCursor, sumUsage } from './job-index.ts';
import {
  endedAt,
  findEvent,
  isFinalJob,
  type JobEntry,
  RECORD,
  readJob,
  serviceSelector,
  toJob,
  withJobProgress,
} from './job-object.ts';
import { absentJob, JobObjects, leavesTombstone } from './job-objects.ts';
import type { TemplateOptions } from './job-template.ts';
import { StatusMirror } from './status-mirror.ts';
import { suspensionReason, WorkloadReconciler } from './workload-reconciler.ts';

/** Jobs read in one step of a long list. */
const SLICE = 200;

/** Jobs removed concurrently: half of the client's connections, so that other requests are not delayed. */
const AT_ONCE = 16;

/** How long a request for the current cursor waits until the watch has delivered this manager's own writes. */
const CATCH_UP_MS = 5_000;

export interface KubernetesJobStoreOptions extends TemplateOptions {
  readonly kueue?: Pick<Kueue, 'queueFor' | 'workloadFor' | 'cache'> | undefined;
  readonly watch: Omit<InformerOptions, 'labelSelector'>;
  /** Finds a service: its definition determines the namespace and the template of its Jobs. */
  readonly serviceNamed: (name: string) => Promise<Service | undefined>;
  readonly now: () => number;
  /** Called with problems of background work, which is retried, and with records that cannot be read. */
  readonly report: (problem: unknown) => void;
}

/** Stores each job as a Job in the namespace of its service, which Kubernetes shows and does not run (decision 0021). */
export class KubernetesJobStore implements JobStore {
  readonly #api: Api;
  readonly #options: KubernetesJobStoreOptions;
  readonly #cache: JobCache;
  readonly #informer: Informer<KubeJob>;
  readonly #objects: JobObjects;
  readonly #events: EventBlobs;
  readonly #listeners = new Set<() => void>();
  #notifying = false;
  #trouble: string | undefined;

  constructor(api: Api, options: KubernetesJobStoreOptions) {
    this.#api = api;
    this.#options = options;
    this.#events = new EventBlobs(options.report);
    this.#cache = new JobCache({
      changed: () => this.#notify(),
      removed: ({ eventBlob }) => this.#events.drop(eventBlob),
      report: (problem) => this.#noteTrouble(problem),
    });
    this.#informer = new Informer<KubeJob>(api, JOB, this.#cache, { labelSelector: RECORD, ...options.watch });
    this.#objects = new JobObjects(api, {
      cache: this.#cache,
      isLive: () => this.#informer.live,
      serviceNamed: options.serviceNamed,
    });
  }

  /** Resolves when all jobs are known. */
  async open(): Promise<void> {
    await this.#informer.start();
  }

  async close(): Promise<void> {
    await this.#informer.stop();
  }

  /** Sets the store for large events; until then they are rejected. */
  useBlobStore(blobs: BlobStore): void {
    this.#events.use(blobs);
  }

  /** Keys of the events in the blob store, as far as the cache knows. */
  eventBlobKeys(): Set<string> {
    return new Set(
      Array.from(this.#cache.entries(), ({ eventBlob }) => eventBlob?.key).filter((key) => key !== undefined),
    );
  }

  /** Whether the watch of the jobs is open. */
  get live(): boolean {
    return this.#informer.live;
  }

  /** How often all jobs were listed. */
  get lists(): number {
    return this.#informer.lists;
  }

  /** The last problem of the watch. */
  get trouble(): string | undefined {
    return this.#trouble;
  }

  /** A new one for each leadership; the leader starts and stops it. */
  statusMirror(): StatusMirror {
    return new StatusMirror(this.#api, {
      cache: this.#cache,
      read: (entry) => this.#objects.fullObject(entry),
      onlyEnds: !this.#options.managedBy,
      report: this.#options.report,
    });
  }

  /** The same; undefined without Kueue. */
  workloadReconciler(): WorkloadReconciler | undefined {
    const { kueue, report } = this.#options;
    return kueue && new WorkloadReconciler(this.#api, { cache: this.#cache, kueueCache: kueue.cache, report });
  }

  /** The Job of a job, for owner references. `suspended`: Kueue has not admitted it yet. */
  async object(key: JobKey): Promise<Pick<JobEntry, 'namespace' | 'name' | 'uid' | 'suspended'> | undefined> {
    const entry = await this.#objects.current(key);
    if (!entry?.record) return undefined;
    const { namespace, name, uid, suspended } = entry;
    return { namespace, name, uid, suspended };
  }

  async accept(job: NewJob, progress: JobProgress, event: Uint8Array): Promise<Acceptance> {
    const service = await this.#options.serviceNamed(job.service);
    if (!service) throw new StoreError('absent', `service "${job.service}" of the job "${job.id}" not found`);
    const location = await this.#events.put(event, { namespace: service.namespace, name: jobObjectName(job) });
    const object = toJob(job, progress, { bytes: event.byteLength, location }, service, this.#options);
    for (;;) {
      const made = await createObject(this.#api, JOB, object);
      if (made !== 'exists') return { outcome: 'created', record: this.#written(this.#objects.remember(made)) };
      // It may have been removed in between: then create it.
      const known = await this.#objects.existing(job, object);
      if (!known) continue;
      if ('blob' in location) this.#events.drop(location.blob);
      const record = this.#shown(known);
      return { outcome: 'exists', ...(record && { record }) };
    }
  }

  async get(key: JobKey): Promise<JobRecord | undefined> {
    const entry = await this.#objects.current(key);
    return entry && this.#shown(entry);
  }

  async getFresh(key: JobKey): Promise<JobRecord | undefined> {
    const object = await this.#objects.fetch(key);
    return object && readJob(object).record;
  }

  async event(key: JobKey): Promise<Uint8Array | undefined> {
    const entry = await this.#objects.current(key);
    const object = entry?.record && (await this.#objects.fullObject(entry));
    return object && readJob(object).record ? this.#events.read(findEvent(object)) : undefined;
  }

  async update(key: JobKey, expected: Version, change: Partial<JobProgress>): Promise<JobRecord> {
    for (let fresh = false; ; fresh = true) {
      const object = await this.#objects.atVersion(key, expected, fresh);
      const next = withJobProgress(object, change);
      const written = await replaceObject(this.#api, JOB, next, object);
      if (written === 'absent') this.#cache.drop(object.metadata);
      if (written === 'absent') throw absentJob(key);
      // A conflict may come from the status, which is no change of the record: read the Job again and retry.
      if (written !== 'conflict') return this.#written(this.#objects.rememberWritten(written, next));
    }
  }

  async list(query: JobQuery): Promise<Page<JobRecord>> {
    const wanted = Math.max(1, query.limit);
    const items: JobRecord[] = [];
    const order = this.#orderFor(query);
    let below = readListCursor(query.cursor);
    for (;;) {
      const slice = order?.below(below, SLICE) ?? [];
      for (const record of slice) {
        if (!passes(record, query)) continue;
        const shown = items.at(-1);
        if (shown && items.length === wanted) return { items, next: listCursor(listPosition(shown)) };
        items.push(this.#withSuspension(record));
      }
      const last = slice.at(-1);
      if (!last || slice.length < SLICE) return { items };
      below = listPosition(last);
    }
  }

  /** The shortest order that has all jobs of the query. */
  #orderFor({ service, concerning, states }: JobQuery): Ordered<JobRecord> | undefined {
    const { index } = this.#cache;
    if (service !== undefined) return index.listed(service);
    if (concerning !== undefined) return index.concerning(concerning);
    return states?.some(isFinalJob) === false ? index.unfinished : index.accepted;
  }

  async *unfinished(): AsyncGenerator<JobRecord, undefined> {
    let above = LOWEST;
    for (;;) {
      const slice: JobRecord[] = this.#cache.index.unfinished.above(above, SLICE);
      yield* slice.map((record) => this.#withSuspension(record));
      const last = slice.at(-1);
      if (!last || slice.length < SLICE) return;
      above = listPosition(last);
    }
  }

  async changes({ service, since, limit }: ChangeQuery): Promise<JobChanges> {
    const { log, newest } = this.#cache;
    if (since === undefined) await log.reached(newest, CATCH_UP_MS);
    const { keys, cursor } = log.read(since, service, Math.max(1, limit));
    const items = keys.map((key) => {
      const entry = this.#cache.find(key);
      const record = entry && this.#shown(entry);
      return { key, ...(record && { record }) };
    });
    return { items, cursor };
  }

  onChange(listener: () => void): () => void {
    // A new function for each call, so that a listener that is added twice is removed one at a time.
    const listening = () => listener();
    this.#listeners.add(listening);
    return () => this.#listeners.delete(listening);
  }

  async remove(key: JobKey): Promise<boolean> {
    return (await this.#removeFinished(key)) !== undefined;
  }

  /** Lists the jobs from the server: jobs that another manager has just accepted must be removed too. */
  async removeService(serviceUid: string): Promise<JobRecord[]> {
    const removed: JobRecord[] = [];
    let from: string | undefined;
    do {
      const page = { labelSelector: serviceSelector(serviceUid), limit: SLICE, ...(from !== undefined && { from }) };
      const { items, metadata } = await this.#api.page<KubeJob>(JOB, {}, page).catch((error: unknown) => {
        throw toStoreError(error, `list the jobs of the service ${serviceUid}`);
      });
      const gone = await mapConcurrent(items ?? [], async (object) => {
        const entry = this.#objects.remember(object);
        return (await this.#objects.delete(entry)) ? entry.record : undefined;
      });
      removed.push(...gone.filter((record) => record !== undefined));
      from = metadata.continue;
    } while (from);
    return removed;
  }

  async expire(finishedBefore: number, limit: number): Promise<JobRecord[]> {
    const oldest = this.#cache.index.ended.above(LOWEST, limit);
    const old = oldest.filter((record) => (endedAt(record) ?? finishedBefore) < finishedBefore);
    const removed = await mapConcurrent(old, (record) =>
      this.#removeFinished(record).catch((error: unknown) => {
        // Return the jobs that were removed; one that failed is tried again at the next call.
        if (!isRace(error)) this.#options.report(error);
        return undefined;
      }),
    );
    return removed.filter((record) => record !== undefined);
  }

  async dropTombstones(serviceUid: string, modifiedBefore: number): Promise<number> {
    const old = [...this.#cache.index.hiddenFor(serviceUid)].filter(({ causedAt }) => causedAt < modifiedBefore);
    const dropped = await mapConcurrent(old, (entry) => this.#objects.delete(entry));
    return dropped.filter(Boolean).length;
  }

  async counts(): Promise<ReadonlyMap<JobState, number>> {
    return new Map(this.#cache.index.counts);
  }

  async oldestWaiting(): Promise<number | undefined> {
    return this.#cache.index.waiting.first()?.acceptedAt;
  }

  async usage(range: { readonly from: number; readonly to: number }): Promise<UsageRow[]> {
    return sumUsage(this.#cache.index.accepted, range, this.#options.now());
  }

  /** The record of an entry, with the reason why Kueue suspends it at this moment. */
  #shown(entry: JobEntry): JobRecord | undefined {
    const { record } = entry;
    if (!record) return undefined;
    const held = suspensionReason(entry, record, this.#options.kueue);
    return held === undefined ? record : { ...record, held };
  }

  #withSuspension(record: JobRecord): JobRecord {
    const entry = this.#options.kueue && this.#cache.find(record);
    return (entry && this.#shown(entry)) ?? record;
  }

  /** The record that was just written. */
  #written(entry: JobEntry): JobRecord {
    const record = this.#shown(entry);
    if (record) return record;
    throw new StoreError('damaged', `the job "${entry.id}" was written but cannot be read`);
  }

  async #removeFinished(key: JobKey): Promise<JobRecord | undefined> {
    const taken = await this.#objects.removeFinished(key);
    // A tombstone does not need its event. When the Job is removed, the cache drops the event.
    if (taken?.record && leavesTombstone(taken.record)) this.#events.drop(taken.eventBlob);
    return taken?.record;
  }

  #noteTrouble(problem: unknown): void {
    const known = toStoreError(problem, 'watch the jobs');
    this.#trouble = known instanceof Error ? known.message : String(known);
    this.#options.report(known);
  }

  /** Notifies once for all changes of the same turn of the event loop. */
  #notify(): void {
    if (this.#notifying) return;
    this.#notifying = true;
    queueMicrotask(() => {
      this.#notifying = false;
      for (const listener of this.#listeners) listener();
    });
  }
}

function passes(record: JobRecord, { states, triggers, concerning }: JobQuery): boolean {
  return (
    (states === undefined || states.includes(record.state)) &&
    (triggers === undefined || triggers.includes(record.trigger)) &&
    (concerning === undefined || record.invoker === concerning || record.principal === concerning)
  );
}

async function mapConcurrent<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const slots = new Slots(AT_ONCE);
  return Promise.all(items.map((item) => slots.use(() => work(item))));
}
