import { setTimeout as pause, setImmediate as turn } from 'node:timers/promises';
import type { Cursor } from '../../../lib/version.ts';
import type { StorageEvent } from '../../../model/job/index.ts';
import type { Service } from '../../../model/service/index.ts';
import type { Journal, StoredObject } from '../../../ports/index.ts';
import type { Jobs } from '../../jobs.ts';
import { acceptEvent } from '../storage-events.ts';
import {
  afterPass,
  forgettableBefore,
  isDue,
  sweepSpan,
  type WatchedEntry,
  WatchedPrefixes,
} from './watched-prefixes.ts';

interface SweepOptions {
  readonly jobs: SweepDeps['jobs'];
  readonly journal: Journal;
  readonly report: (problem: unknown) => void;
  /** The clock of the store, in milliseconds. */
  readonly storeTime: () => number | Promise<number>;
  /** Milliseconds between two passes, with jitter. */
  readonly interval?: number;
}

const INTERVAL = 60_000;

/** Services that are swept concurrently. More of them list a distant store faster, and load it more. */
const AT_ONCE = 4;

/** Rest after a pass, as a multiple of its duration: passes take at most a tenth of the time, however large the buckets are. */
const REST = 9;

/** Pause before a broken watch is opened again. */
const WATCH_AGAIN_MS = 1_000;

/**
 * Finds objects whose events were lost (docs/jobs.md#no-event-is-lost-none-runs-twice). For each prefix that is an input of
 * a service it stores a watermark. A job that it creates has the same id as the job of the event, so only one of them runs.
 * Any number of managers may sweep at once.
 *
 * The watermark of a prefix starts when a service with this input is first seen, which is when the service store reports it:
 * on this manager before the create request is answered, on another one within the delay of the watch. If the manager dies
 * within these milliseconds, the watermark starts at its next start.
 *
 * Not for stores whose events carry no time: the ids of their jobs differ from those of swept objects.
 */
export class Sweep {
  readonly #options: Required<SweepOptions>;
  readonly #prefixes: WatchedPrefixes;
  readonly #stopping = new AbortController();
  #woken = Promise.withResolvers<void>();
  #running: Promise<unknown> | undefined;

  constructor(options: SweepOptions) {
    this.#options = { interval: INTERVAL, ...options };
    this.#prefixes = new WatchedPrefixes(options.journal);
  }

  start(): void {
    this.#running ??= Promise.all([this.#follow(), this.#repeat()]);
  }

  /** Waits for work in progress. An interrupted pass changes no watermark. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#woken.resolve();
    await this.#running;
  }

  /** One pass over all services. */
  async pass(): Promise<void> {
    const begun = await this.#options.storeTime();
    const entries = Map.groupBy(await this.#prefixes.all(), ({ service }) => service.name);
    // A list may lag. Services that it omits still have their journal entries.
    const names = new Set([...(await this.#names()), ...entries.keys()]).values();
    const work = async () => {
      for (const name of names) await this.#sweep(name, entries.get(name) ?? [], begun);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
  }

  async #sweep(name: string, entries: readonly WatchedEntry[], begun: number): Promise<void> {
    const { signal } = this.#stopping;
    if (signal.aborted) return;
    try {
      const service = (await this.#options.jobs.services.get(name))?.service;
      const isOwn = (entry: WatchedEntry) => entry.service.uid === service?.uid;
      await Promise.all(entries.filter((entry) => !isOwn(entry)).map((entry) => this.#prefixes.forget(entry)));
      const deps = { ...this.#options, prefixes: this.#prefixes, signal, report: (e: unknown) => this.#report(e) };
      if (service) await sweepService(service, entries.filter(isOwn), begun, deps);
    } catch (error) {
      this.#report(error);
    }
  }

  async #names(): Promise<string[]> {
    const { services } = this.#options.jobs;
    const names: string[] = [];
    let page = await services.list({});
    for (;;) {
      names.push(...page.items.map(({ service }) => service.definition.name));
      if (page.next === undefined) return names;
      page = await services.list({ cursor: page.next });
    }
  }

  async #repeat(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      this.#woken = Promise.withResolvers();
      const begun = performance.now();
      await this.pass().catch((error: unknown) => this.#report(error));
      const took = performance.now() - begun;
      // Jitter, so that managers do not sweep at the same moment.
      const rest = Math.max(this.#options.interval * (0.9 + Math.random() / 5), REST * took);
      await Promise.race([this.#woken.promise, this.#pause(rest)]);
    }
  }

  /** Updates the watched prefixes as soon as a service changes. */
  async #follow(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        for await (const change of this.#options.jobs.services.watch(signal)) {
          if (change.kind === 'changed') await this.#reconcile(change.name);
          // The next pass finds what was missed.
          else if (change.kind === 'resync') this.#woken.resolve();
        }
      } catch (error) {
        this.#report(error);
      }
      await this.#pause(WATCH_AGAIN_MS);
      this.#woken.resolve();
    }
  }

  async #reconcile(name: string): Promise<void> {
    try {
      const now = await this.#options.storeTime();
      const record = await this.#options.jobs.services.get(name);
      if (record) await this.#prefixes.reconcile(record.service, now);
    } catch (error) {
      this.#report(error);
    }
  }

  #report(error: unknown): void {
    if (!this.#stopping.signal.aborted) this.#options.report(error);
  }

  async #pause(ms: number): Promise<void> {
    await pause(ms, undefined, { signal: this.#stopping.signal, ref: false }).catch(() => undefined);
  }
}

interface SweepDeps {
  readonly jobs: Pick<Jobs, 'store' | 'scheduler' | 'now' | 'place' | 'services' | 'objects' | 'storeAccount'>;
  readonly prefixes: WatchedPrefixes;
  /** Called with errors. The next pass starts at the same watermark again. */
  readonly report: (problem: unknown) => void;
  readonly signal: AbortSignal;
}

/** Objects per listing, and at most accepted concurrently. */
const PAGE = 250;

/** Accepts jobs for the objects under the prefixes of a service that have none yet. `begun` is when the pass began. */
async function sweepService(
  service: Service,
  known: readonly WatchedEntry[],
  begun: number,
  deps: SweepDeps,
): Promise<void> {
  const { prefixes, jobs } = deps;
  const before = await prefixes.reconcile(service, begun, known);
  const after: WatchedEntry[] = [];
  for (const entry of before) after.push(await sweepPrefix(service, entry, begun, deps));
  const isForgettable = after.some(({ watched }, index) => watched.forgettable !== before[index]?.watched.forgettable);
  if (!isForgettable) return;
  await jobs.store.dropTombstones(service.uid, forgettableBefore(after.map(({ watched }) => watched)));
}

/** Resolves to the new entry. Its watermark moves only if all due objects were accepted. */
async function sweepPrefix(
  service: Service,
  entry: WatchedEntry,
  begun: number,
  deps: SweepDeps,
): Promise<WatchedEntry> {
  try {
    const found = await acceptDue(service, entry, begun, deps);
    const moved = afterPass(entry.watched, begun, found);
    return (moved && (await deps.prefixes.move(entry, moved))) ?? entry;
  } catch (error) {
    const isGone = !deps.signal.aborted && (await hasNoBucket(entry.watched.bucket, deps));
    // A user may have removed the bucket. That is no error: a bucket of that name may be created again.
    if (!isGone) deps.report(error);
    return entry;
  }
}

async function acceptDue(
  service: Service,
  { watched }: WatchedEntry,
  begun: number,
  { jobs, signal }: SweepDeps,
): Promise<number> {
  const { bucket, prefix } = watched;
  const span = sweepSpan(watched, begun);
  if (span.upTo <= span.after) return 0;
  let found = 0;
  let cursor: Cursor | undefined;
  do {
    const page = await jobs.objects.objects(bucket, { prefix, limit: PAGE, ...(cursor !== undefined && { cursor }) });
    const due = page.items.filter((object) => isDue(object, span)).map((object) => sweptEvent(bucket, object));
    await Promise.all(due.map(({ event, json }) => acceptEvent(event, json, service, jobs)));
    found += due.length;
    cursor = page.next;
    // A store in this process answers at once, and a large bucket must not delay other work.
    await turn();
    signal.throwIfAborted();
  } while (cursor !== undefined);
  return found;
}

async function hasNoBucket(bucket: string, { jobs }: SweepDeps): Promise<boolean> {
  try {
    return (await jobs.objects.bucket(bucket)) === undefined;
  } catch {
    return false;
  }
}

interface SweptEvent {
  readonly event: StorageEvent;
  readonly json: Uint8Array;
}

/**
 * The event that the store should have sent, so that the script sees the same as from a delivered event. Who wrote the
 * object is not known any more.
 */
export function sweptEvent(bucket: string, { key, bytes, eTag, modifiedAt }: StoredObject): SweptEvent {
  const name = 's3:ObjectCreated:Put';
  const record = {
    eventVersion: '2.0',
    eventSource: 'minio:s3',
    awsRegion: '',
    eventTime: new Date(modifiedAt).toISOString(),
    eventName: name,
    userIdentity: { principalId: '' },
    requestParameters: { principalId: '', region: '', sourceIPAddress: '' },
    responseElements: {},
    s3: {
      s3SchemaVersion: '1.0',
      configurationId: 'Config',
      bucket: { name: bucket, ownerIdentity: { principalId: '' }, arn: `arn:aws:s3:::${bucket}` },
      object: { key: encodeAsQuery(key), size: bytes, eTag, sequencer: toSequencer(modifiedAt) },
    },
    source: { host: '', port: '', userAgent: '' },
  };
  const json = JSON.stringify({ EventName: name, Key: `${bucket}/${key}`, Records: [record] });
  return { event: { bucket, key, eTag, bytes, modifiedAt }, json: Buffer.from(json) };
}

/** Encodes a key as MinIO does in a record: a blank is `+`. */
const encodeAsQuery = (key: string) => encodeURIComponent(key).replaceAll('%20', '+');

/** The modification time in nanoseconds, of which a listing shows the milliseconds. */
const toSequencer = (modifiedAt: number) =>
  (BigInt(modifiedAt) * 1_000_000n).toString(16).toUpperCase().padStart(16, '0');
