import type { JobRecord, JobState } from '../../job-record.ts';
import { endedAt, isFinal, type JobEntry } from './job-object.ts';
import { Ordered, type Position } from './ordered.ts';

const WAITING: ReadonlySet<JobState> = new Set(['accepted', 'queued', 'offering']);

/** Of a record in lists: the same at every manager. */
export const positionOf = ({ acceptedAt, id, service }: JobRecord): Position => ({
  at: acceptedAt,
  text: `${id}/${service}`,
});

const byEnd = (record: JobRecord): Position => ({ ...positionOf(record), at: endedAt(record) ?? 0 });

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
    if (isFinal(state)) return [this.accepted, this.ended];
    return WAITING.has(state) ? [this.accepted, this.unfinished, this.waiting] : [this.accepted, this.unfinished];
  }

  #count(state: JobState, more: number): void {
    const count = (this.#counts.get(state) ?? 0) + more;
    if (count === 0) this.#counts.delete(state);
    else this.#counts.set(state, count);
  }
}
