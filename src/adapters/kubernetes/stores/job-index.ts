import type { Cursor } from '../../../lib/version.ts';
import type { JobRecord, JobState } from '../../../model/job/index.ts';
import { cursorExpired, decodeCursor, encodeCursor, type UsageRow } from '../../../ports/index.ts';
import { endedAt, isFinalJob, type JobEntry } from './job-object.ts';

const WAITING: ReadonlySet<JobState> = new Set(['accepted', 'queued', 'offering']);

/** Of a record in lists: the same at every manager. */
export const positionOf = ({ acceptedAt, id, service }: JobRecord): IndexPosition => ({
  at: acceptedAt,
  text: `${id}/${service}`,
});

const byEnd = (record: JobRecord): IndexPosition => ({ ...positionOf(record), at: endedAt(record) ?? 0 });

/** The jobs of a service, also of one that is gone, which another of its name may have followed. */
interface OfService {
  readonly shown: Set<JobEntry>;
  readonly hidden: Set<JobEntry>;
}

/** Jobs in all the orders in which they are asked for, kept up with every change: nothing is looked up by a scan. */
export class JobIndex {
  readonly accepted = new Ordered(positionOf);
  readonly unfinished = new Ordered(positionOf);
  readonly waiting = new Ordered(positionOf);
  readonly ended = new Ordered(byEnd);
  readonly #byService = new Map<string, Ordered<JobRecord>>();
  readonly #byUid = new Map<string, OfService>();
  readonly #counts = new Map<JobState, number>();

  get counts(): ReadonlyMap<JobState, number> {
    return this.#counts;
  }

  /** By the name of the service. */
  listed(service: string): Ordered<JobRecord> | undefined {
    return this.#byService.get(service);
  }

  hiddenOf(serviceUid: string): Iterable<JobEntry> {
    return this.#byUid.get(serviceUid)?.hidden ?? [];
  }

  add(entries: readonly JobEntry[]): void {
    const added = new Map<Ordered<JobRecord>, JobRecord[]>();
    for (const entry of entries) {
      const { record, serviceUid } = entry;
      const ofUid = this.#byUid.get(serviceUid) ?? { shown: new Set(), hidden: new Set() };
      this.#byUid.set(serviceUid, ofUid);
      (record ? ofUid.shown : ofUid.hidden).add(entry);
      if (!record) continue;
      const ofService = this.#byService.get(record.service) ?? new Ordered(positionOf);
      this.#byService.set(record.service, ofService);
      for (const order of [ofService, ...this.#ordersOf(record)]) {
        const records = added.get(order) ?? [];
        records.push(record);
        added.set(order, records);
      }
      this.#count(record.state, 1);
    }
    for (const [order, records] of added) order.addAll(records);
  }

  delete(entry: JobEntry): void {
    const { record, serviceUid } = entry;
    const ofUid = this.#byUid.get(serviceUid);
    ofUid?.shown.delete(entry);
    ofUid?.hidden.delete(entry);
    if (ofUid && ofUid.shown.size + ofUid.hidden.size === 0) this.#byUid.delete(serviceUid);
    if (!record) return;
    const ofService = this.#byService.get(record.service);
    ofService?.delete(record);
    if (ofService?.size === 0) this.#byService.delete(record.service);
    for (const order of this.#ordersOf(record)) order.delete(record);
    this.#count(record.state, -1);
  }

  #ordersOf({ state }: JobRecord): Ordered<JobRecord>[] {
    if (isFinalJob(state)) return [this.accepted, this.ended];
    return WAITING.has(state) ? [this.accepted, this.unfinished, this.waiting] : [this.accepted, this.unfinished];
  }

  #count(state: JobState, more: number): void {
    const count = (this.#counts.get(state) ?? 0) + more;
    if (count === 0) this.#counts.delete(state);
    else this.#counts.set(state, count);
  }
}

/** So many are put into their places one by one sooner than all are sorted. */
const FEW = 16;

/** Where something is in an order: by time, and where that is the same, by text. */
export interface IndexPosition {
  readonly at: number;
  readonly text: string;
}

/**
 * Things in an order, for lists that go on after the last one shown. Almost all come in their order, so that an array
 * to which they are added at the end is the quickest there is.
 */
export class Ordered<T> {
  #items: { readonly position: IndexPosition; readonly item: T }[] = [];
  readonly #positionOf: (item: T) => IndexPosition;

  constructor(position: (item: T) => IndexPosition) {
    this.#positionOf = position;
  }

  get size(): number {
    return this.#items.length;
  }

  first(): T | undefined {
    return this.#items[0]?.item;
  }

  /** The same for many, in whatever order: one by one, each would be moved for every other that comes before it. */
  addAll(items: readonly T[]): void {
    if (items.length < FEW) {
      for (const item of items) this.add(item);
      return;
    }
    const added = items.map((item) => ({ position: this.#positionOf(item), item }));
    // Of two at the same position the later one counts, and sorting keeps the order of equals.
    const all = [...this.#items, ...added].toSorted((a, b) => compare(a.position, b.position));
    this.#items = all.filter(({ position }, n) => {
      const next = all[n + 1];
      return !next || compare(position, next.position) !== 0;
    });
  }

  /** Replaces what is at the same position. */
  add(item: T): void {
    const position = this.#positionOf(item);
    const index = this.#find(position);
    this.#items.splice(index, this.#isAt(index, position) ? 1 : 0, { position, item });
  }

  delete(item: T): void {
    const position = this.#positionOf(item);
    const index = this.#find(position);
    if (this.#isAt(index, position)) this.#items.splice(index, 1);
  }

  /** The first ones above, the nearest first. */
  above(position: IndexPosition, limit: number): T[] {
    const index = this.#find(position);
    const start = this.#isAt(index, position) ? index + 1 : index;
    return this.#items.slice(start, start + limit).map(({ item }) => item);
  }

  /** The last ones below, the nearest first. */
  below(position: IndexPosition, limit: number): T[] {
    const index = this.#find(position);
    const some = this.#items.slice(Math.max(0, index - limit), index);
    return some.toReversed().map(({ item }) => item);
  }

  /** Where it is, or would be. */
  #find(position: IndexPosition): number {
    let low = 0;
    let high = this.#items.length;
    // What comes in its order goes behind the last.
    const last = this.#items.at(-1);
    if (!last || compare(last.position, position) < 0) return high;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const there = this.#items[middle];
      if (there && compare(there.position, position) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #isAt(index: number, position: IndexPosition): boolean {
    const there = this.#items[index];
    return there !== undefined && compare(there.position, position) === 0;
  }
}

export const LOWEST: IndexPosition = { at: -Number.MAX_VALUE, text: '' };
export const HIGHEST: IndexPosition = { at: Number.MAX_VALUE, text: '' };

function compare(a: IndexPosition, b: IndexPosition): number {
  if (a.at !== b.at) return a.at - b.at;
  return a.text < b.text ? -1 : Number(a.text > b.text);
}

/** A list goes on before this job. */
export function listCursor({ at, text }: IndexPosition): Cursor {
  return encodeCursor(at, text);
}

export function readListCursor(cursor: Cursor | undefined): IndexPosition {
  if (cursor === undefined) return HIGHEST;
  const [at, text] = decodeCursor(cursor);
  if (typeof at !== 'number' || typeof text !== 'string') throw cursorExpired();
  return { at, text };
}

/** Changes go on behind this version of the API, which is one for all its objects. */
export function changeCursor(resourceVersion: string): Cursor {
  return encodeCursor(resourceVersion);
}

export function readChangeCursor(cursor: Cursor): string {
  const [resourceVersion] = decodeCursor(cursor);
  if (typeof resourceVersion !== 'string' || !/^\d+$/.test(resourceVersion)) throw cursorExpired();
  return resourceVersion;
}

/** Enough that the sum is what takes the time, few enough that everybody else waits a millisecond for it. */
const SLICE = 1_000;

interface Range {
  readonly from: number;
  readonly to: number;
}

/** What jobs have used that were accepted in the range, slice by slice. Those that still run have run until now. */
export async function usageOf(jobs: Ordered<JobRecord>, range: Range, now: number): Promise<UsageRow[]> {
  const sums = new Map<string, UsageRow>();
  let above = { at: range.from, text: '' };
  for (;;) {
    const slice = jobs.above(above, SLICE);
    for (const record of slice) {
      if (record.acceptedAt >= range.to) return [...sums.values()];
      addTo(sums, record, range, now);
    }
    const last = slice.at(-1);
    if (!last || slice.length < SLICE) return [...sums.values()];
    above = positionOf(last);
    await new Promise(setImmediate);
  }
}

function addTo(sums: Map<string, UsageRow>, record: JobRecord, range: Range, now: number): void {
  const { service, invoker, trigger, demand } = record;
  const key = JSON.stringify([service, invoker, trigger]);
  const sum = sums.get(key) ?? { service, invoker, trigger, jobs: 0, cpuSeconds: 0, gpuSeconds: 0 };
  const seconds = millisecondsWithin(record, range, now) / 1_000;
  sums.set(key, {
    ...sum,
    jobs: sum.jobs + 1,
    cpuSeconds: sum.cpuSeconds + (demand.cpu / 1_000) * seconds,
    gpuSeconds: sum.gpuSeconds + demand.gpu * seconds,
  });
}

function millisecondsWithin(record: JobRecord, { from, to }: Range, now: number): number {
  const { startedAt, finishedAt = endedAt(record) ?? now } = record;
  return startedAt === undefined ? 0 : Math.max(0, Math.min(finishedAt, to) - Math.max(startedAt, from));
}
