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
import { heldBy } from './held.ts';
import { JobCache } from './job-cache.ts';
import { LOWEST, listCursor, positionOf, readListCursor, usageOf } from './job-index.ts';
import {
  endedAt,
  eventInJob,
  type JobEntry,
  ofService,
  RECORD,
  readJob,
  toJob,
  withJobProgress,
} from './job-object.ts';
import { absent, JobObjects, leavesMark } from './job-objects.ts';
import type { TemplateOptions } from './job-template.ts';
import { OutOfQueue } from './out-of-queue.ts';
import { StatusMirror } from './status-mirror.ts';

/** Jobs that are looked at in one go, of many. */
const SLICE = 200;

/** Jobs that are removed at once, of many: half of the connections, so that whoever comes meanwhile gets one. */
const AT_ONCE = 16;

/** How long whoever asks for the cursor of now waits for the watch to tell of what was written before. */
const CATCH_UP_MS = 5_000;

export interface KubernetesJobStoreOptions extends TemplateOptions {
  readonly kueue?: Pick<Kueue, 'queueOf' | 'workloadOf' | 'picture'> | undefined;
  readonly watch: Omit<InformerOptions, 'labelSelector'>;
  /** Where a job is, and what its Job looks like, follows from its service. */
  readonly serviceNamed: (name: string) => Promise<Service | undefined>;
  readonly now: () => number;
  /** Told what went wrong in the background, which mends itself, or of a record that cannot be read. */
  readonly report: (problem: unknown) => void;
}

/** The jobs as Jobs in the namespaces of their services, which Kubernetes shows and does not run (decision 0021). */
export class KubernetesJobStore implements JobStore {
  readonly #api: Api;
  readonly #options: KubernetesJobStoreOptions;
  readonly #cache: JobCache;
  readonly #informer: Informer<KubeJob>;
  readonly #objects: JobObjects;
  readonly #events: EventBlobs;
  readonly #listeners = new Set<() => void>();
  #telling = false;
  #trouble: string | undefined;

  constructor(api: Api, options: KubernetesJobStoreOptions) {
    this.#api = api;
    this.#options = options;
    this.#events = new EventBlobs(options.report);
    this.#cache = new JobCache({
      changed: () => this.#tell(),
      gone: ({ shelved }) => this.#events.drop(shelved),
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

  /** Where events go that are too large for an object; until it is given, those are refused. */
  useShelf(shelf: BlobStore): void {
    this.#events.use(shelf);
  }

  /** Keys of the events that lie there, as far as is known here. */
  shelvedEvents(): Set<string> {
    return new Set(Array.from(this.#cache.entries(), ({ shelved }) => shelved?.key).filter((key) => key !== undefined));
  }

  /** Is it being told what changes? */
  get live(): boolean {
    return this.#informer.live;
  }

  /** How often everything was listed. */
  get lists(): number {
    return this.#informer.lists;
  }

  /** The last thing that went wrong with the watch, as a sentence. */
  get trouble(): string | undefined {
    return this.#trouble;
  }

  /** To be started and stopped by whoever leads. */
  statusMirror(): StatusMirror {
    return new StatusMirror(this.#api, {
      cache: this.#cache,
      read: (entry) => this.#objects.whole(entry),
      onlyEnds: !this.#options.managedBy,
      report: this.#options.report,
    });
  }

  /** The same; undefined where no Kueue has queues. */
  outOfQueue(): OutOfQueue | undefined {
    const { kueue, report } = this.#options;
    return kueue && new OutOfQueue(this.#api, { cache: this.#cache, picture: kueue.picture, report });
  }

  /** The Job of a job, so that what runs for it can be owned by it. `suspended`: Kueue has not let it in yet. */
  async object(key: JobKey): Promise<Pick<JobEntry, 'namespace' | 'name' | 'uid' | 'suspended'> | undefined> {
    const entry = await this.#objects.current(key);
    if (!entry?.record) return undefined;
    const { namespace, name, uid, suspended } = entry;
    return { namespace, name, uid, suspended };
  }

  async accept(job: NewJob, progress: JobProgress, event: Uint8Array): Promise<Acceptance> {
    const service = await this.#options.serviceNamed(job.service);
    if (!service) throw new StoreError('absent', `there is no service "${job.service}" for the job "${job.id}"`);
    const place = await this.#events.put(event, { namespace: service.namespace, name: jobObjectName(job) });
    const object = toJob(job, progress, { bytes: event.byteLength, place }, service, this.#options);
    for (;;) {
      const made = await createObject(this.#api, JOB, object);
      if (made !== 'exists') return { outcome: 'created', record: this.#written(this.#objects.keep(made)) };
      // It may have gone in between; then it can be made after all.
      const known = await this.#objects.existing(job, object);
      if (!known) continue;
      if ('shelved' in place) this.#events.drop(place.shelved);
      const record = this.#shown(known);
      return { outcome: 'exists', ...(record && { record }) };
    }
  }

  async get(key: JobKey): Promise<JobRecord | undefined> {
    const entry = await this.#objects.current(key);
    return entry && this.#shown(entry);
  }

  async getFresh(key: JobKey): Promise<JobRecord | undefined> {
    const object = await this.#objects.look(key);
    return object && readJob(object).record;
  }

  async event(key: JobKey): Promise<Uint8Array | undefined> {
    const entry = await this.#objects.current(key);
    const object = entry?.record && (await this.#objects.whole(entry));
    return object && readJob(object).record ? this.#events.read(eventInJob(object)) : undefined;
  }

  async update(key: JobKey, expected: Version, change: Partial<JobProgress>): Promise<JobRecord> {
    for (let fresh = false; ; fresh = true) {
      const object = await this.#objects.inVersion(key, expected, fresh);
      const next = withJobProgress(object, change);
      const written = await replaceObject(this.#api, JOB, next, object);
      if (written === 'absent') this.#cache.drop(object.metadata);
      if (written === 'absent') throw absent(key);
      // Its status may have been written meanwhile, which is no change of the record: only a look can tell.
      if (written !== 'conflict') return this.#written(this.#objects.written(written, next));
    }
  }

  async list(query: JobQuery): Promise<Page<JobRecord>> {
    const wanted = Math.max(1, query.limit);
    const items: JobRecord[] = [];
    let below = readListCursor(query.cursor);
    for (;;) {
      const slice = this.#cache.index.listed(query.service)?.below(below, SLICE) ?? [];
      for (const record of slice) {
        if (!passes(record, query)) continue;
        const shown = items.at(-1);
        if (shown && items.length === wanted) return { items, next: listCursor(positionOf(shown)) };
        items.push(this.#now(record));
      }
      const last = slice.at(-1);
      if (!last || slice.length < SLICE) return { items };
      below = positionOf(last);
    }
  }

  async *unfinished(): AsyncGenerator<JobRecord, undefined> {
    let above = LOWEST;
    for (;;) {
      const slice: JobRecord[] = this.#cache.index.unfinished.above(above, SLICE);
      yield* slice.map((record) => this.#now(record));
      const last = slice.at(-1);
      if (!last || slice.length < SLICE) return;
      above = positionOf(last);
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
    // Of its own, so that one who listens twice ends each alone.
    const listening = () => listener();
    this.#listeners.add(listening);
    return () => this.#listeners.delete(listening);
  }

  async remove(key: JobKey): Promise<boolean> {
    return (await this.#takeAway(key)) !== undefined;
  }

  /** Asked of the server: what another manager has just accepted must go as well. */
  async removeService(serviceUid: string): Promise<JobRecord[]> {
    const removed: JobRecord[] = [];
    let from: string | undefined;
    do {
      const page = { labelSelector: ofService(serviceUid), limit: SLICE, ...(from !== undefined && { from }) };
      const { items, metadata } = await this.#api.page<KubeJob>(JOB, {}, page).catch((error: unknown) => {
        throw toStoreError(error, `list the jobs of the service ${serviceUid}`);
      });
      const gone = await inTurns(items ?? [], async (object) => {
        const entry = this.#objects.keep(object);
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
    const removed = await inTurns(old, (record) =>
      this.#takeAway(record).catch((error: unknown) => {
        // Whoever asked has to know of those that are gone; one that is not yet will be the next time.
        if (!isRace(error)) this.#options.report(error);
        return undefined;
      }),
    );
    return removed.filter((record) => record !== undefined);
  }

  async dropTombstones(serviceUid: string, modifiedBefore: number): Promise<number> {
    const old = [...this.#cache.index.hiddenOf(serviceUid)].filter(({ markedAt }) => markedAt < modifiedBefore);
    const dropped = await inTurns(old, (entry) => this.#objects.delete(entry));
    return dropped.filter(Boolean).length;
  }

  async counts(): Promise<ReadonlyMap<JobState, number>> {
    return new Map(this.#cache.index.counts);
  }

  async oldestWaiting(): Promise<number | undefined> {
    return this.#cache.index.waiting.first()?.acceptedAt;
  }

  async usage(range: { readonly from: number; readonly to: number }): Promise<UsageRow[]> {
    return usageOf(this.#cache.index.accepted, range, this.#options.now());
  }

  /** The record of an entry, with what the cluster has to say about it at this moment. */
  #shown(entry: JobEntry): JobRecord | undefined {
    const { record } = entry;
    if (!record) return undefined;
    const held = heldBy(entry, record, this.#options.kueue);
    return held === undefined ? record : { ...record, held };
  }

  #now(record: JobRecord): JobRecord {
    const entry = this.#options.kueue && this.#cache.find(record);
    return (entry && this.#shown(entry)) ?? record;
  }

  /** Of what was just written, and so is not hidden. */
  #written(entry: JobEntry): JobRecord {
    const record = this.#shown(entry);
    if (record) return record;
    throw new StoreError('damaged', `the job "${entry.id}" was written and cannot be read`);
  }

  async #takeAway(key: JobKey): Promise<JobRecord | undefined> {
    const taken = await this.#objects.takeAway(key);
    // A mark stays without its event; what is gone has lost it already.
    if (taken?.record && leavesMark(taken.record)) this.#events.drop(taken.shelved);
    return taken?.record;
  }

  #noteTrouble(problem: unknown): void {
    const known = toStoreError(problem, 'watch the jobs');
    this.#trouble = known instanceof Error ? known.message : String(known);
    this.#options.report(known);
  }

  /** Once for all that came together. */
  #tell(): void {
    if (this.#telling) return;
    this.#telling = true;
    queueMicrotask(() => {
      this.#telling = false;
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

async function inTurns<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const slots = new Slots(AT_ONCE);
  return Promise.all(items.map((item) => slots.use(() => work(item))));
}
