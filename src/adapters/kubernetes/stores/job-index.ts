import type { Cursor } from '../../../lib/version.ts';
import type { JobRecord, JobState } from '../../../model/job/index.ts';
import { cursorExpired, decodeCursor, encodeCursor, type UsageRow } from '../../../ports/index.ts';
import { endedAt, isFinalJob, type JobEntry } from './job-object.ts';

const WAITING: ReadonlySet<JobState> = new Set(['accepted', 'queued', 'offering']);

/** The position of a record in lists; every manager computes the same. */
export const listPosition = ({ acceptedAt, id, service }: JobRecord): IndexPosition => ({
  at: acceptedAt,
  text: `${id}/${service}`,
});

const byEnd = (record: JobRecord): IndexPosition => ({ ...listPosition(record), at: endedAt(record) ?? 0 });

/** The jobs of a service, by its uid: a removed service may still have some, and a later one of the same name has others. */
interface ServiceJobs {
  readonly shown: Set<JobEntry>;
  readonly hidden: Set<JobEntry>;
}

/** Jobs in all the orders in which they are listed, updated with every change, so that no query scans all jobs. */
export class JobIndex {
  readonly accepted = new Ordered(listPosition);
  readonly unfinished = new Ordered(listPosition);
  readonly waiting = new Ordered(listPosition);
  readonly ended = new Ordered(byEnd);
  readonly #byService = new Map<string, Ordered<JobRecord>>();
  readonly #byUser = new Map<string, Ordered<JobRecord>>();
  readonly #byUid = new Map<string, ServiceJobs>();
  readonly #counts = new Map<JobState, number>();

  get counts(): ReadonlyMap<JobState, number> {
    return this.#counts;
  }

  /** The jobs of the service with this name. */
  listed(service: string): Ordered<JobRecord> | undefined {
    return this.#byService.get(service);
  }

  /** The jobs of all services that this user caused, or that have this user's rights. */
  concerning(user: string): Ordered<JobRecord> | undefined {
    return this.#byUser.get(user);
  }

  hiddenFor(serviceUid: string): Iterable<JobEntry> {
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
      const ofService = orderFor(this.#byService, record.service);
      const ofUsers = toUsers(record).map((user) => orderFor(this.#byUser, user));
      for (const order of [ofService, ...ofUsers, ...this.#ordersFor(record)]) {
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
    deleteFrom(this.#byService, record.service, record);
    for (const user of toUsers(record)) deleteFrom(this.#byUser, user, record);
    for (const order of this.#ordersFor(record)) order.delete(record);
    this.#count(record.state, -1);
  }

  #ordersFor({ state }: JobRecord): Ordered<JobRecord>[] {
    if (isFinalJob(state)) return [this.accepted, this.ended];
    return WAITING.has(state) ? [this.accepted, this.unfinished, this.waiting] : [this.accepted, this.unfinished];
  }

  #count(state: JobState, more: number): void {
    const count = (this.#counts.get(state) ?? 0) + more;
    if (count === 0) this.#counts.delete(state);
    else this.#counts.set(state, count);
  }
}

const toUsers = ({ invoker, principal }: JobRecord) => (invoker === principal ? [invoker] : [invoker, principal]);

function orderFor(orders: Map<string, Ordered<JobRecord>>, key: string): Ordered<JobRecord> {
  const order = orders.get(key) ?? new Ordered(listPosition);
  orders.set(key, order);
  return order;
}

function deleteFrom(orders: Map<string, Ordered<JobRecord>>, key: string, record: JobRecord): void {
  const order = orders.get(key);
  order?.delete(record);
  if (order?.size === 0) orders.delete(key);
}

/** Fewer additions than this are inserted one by one, which is faster than sorting everything. */
const FEW = 16;

/** A position in an order: by time, then by text. */
export interface IndexPosition {
  readonly at: number;
  readonly text: string;
}

/**
 * A sorted list that can be read from any position. Almost all items arrive in order, so an array with appends is the
 * fastest structure.
 */
export class Ordered<T> {
  #items: { readonly position: IndexPosition; readonly item: T }[] = [];
  readonly #toPosition: (item: T) => IndexPosition;

  constructor(position: (item: T) => IndexPosition) {
    this.#toPosition = position;
  }

  get size(): number {
    return this.#items.length;
  }

  first(): T | undefined {
    return this.#items[0]?.item;
  }

  /** Adds many items in any order. One by one, each would be shifted for every item inserted before it. */
  addAll(items: readonly T[]): void {
    if (items.length < FEW) {
      for (const item of items) this.add(item);
      return;
    }
    const added = items.map((item) => ({ position: this.#toPosition(item), item }));
    // Of two items at the same position the later one wins; the sort is stable.
    const all = [...this.#items, ...added].toSorted((a, b) => compare(a.position, b.position));
    this.#items = all.filter(({ position }, n) => {
      const next = all[n + 1];
      return !next || compare(position, next.position) !== 0;
    });
  }

  /** Replaces the item at the same position. */
  add(item: T): void {
    const position = this.#toPosition(item);
    const index = this.#find(position);
    this.#items.splice(index, this.#isAt(index, position) ? 1 : 0, { position, item });
  }

  delete(item: T): void {
    const position = this.#toPosition(item);
    const index = this.#find(position);
    if (this.#isAt(index, position)) this.#items.splice(index, 1);
  }

  /** Items above the position, the nearest first. */
  above(position: IndexPosition, limit: number): T[] {
    const index = this.#find(position);
    const start = this.#isAt(index, position) ? index + 1 : index;
    return this.#items.slice(start, start + limit).map(({ item }) => item);
  }

  /** Items below the position, the nearest first. */
  below(position: IndexPosition, limit: number): T[] {
    const index = this.#find(position);
    const some = this.#items.slice(Math.max(0, index - limit), index);
    return some.toReversed().map(({ item }) => item);
  }

  /** The index of the position, or where it would be inserted. */
  #find(position: IndexPosition): number {
    let low = 0;
    let high = this.#items.length;
    // The common case: the new item is the last.
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

/** The cursor of a list that continues below this position. */
export function listCursor({ at, text }: IndexPosition): Cursor {
  return encodeCursor(at, text);
}

export function readListCursor(cursor: Cursor | undefined): IndexPosition {
  if (cursor === undefined) return HIGHEST;
  const [at, text] = decodeCursor(cursor);
  if (typeof at !== 'number' || typeof text !== 'string') throw cursorExpired();
  return { at, text };
}

/** The cursor of changes after this resource version; the API server has one sequence for all Jobs. */
export function changeCursor(resourceVersion: string): Cursor {
  return encodeCursor(resourceVersion);
}

export function readChangeCursor(cursor: Cursor): string {
  const [resourceVersion] = decodeCursor(cursor);
  if (typeof resourceVersion !== 'string' || !/^\d+$/.test(resourceVersion)) throw cursorExpired();
  return resourceVersion;
}

/** Jobs summed without a pause. A larger slice blocks other work for more than a millisecond; a smaller one adds overhead. */
const SLICE = 1_000;

interface Range {
  readonly from: number;
  readonly to: number;
}

/** Sums the usage of the jobs accepted in the range, slice by slice. Running jobs count until now. */
export async function sumUsage(jobs: Ordered<JobRecord>, range: Range, now: number): Promise<UsageRow[]> {
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
    above = listPosition(last);
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
