import type { StoreDatabase } from './database.ts';
import { type EventFacts, eventJson } from './event.ts';

/** An object was created under a prefix that somebody waits for. */
export interface OutboxEvent {
  readonly seq: number;
  /** JSON, as MinIO would send it. */
  readonly event: string;
  readonly bucket: string;
  readonly key: string;
  readonly eTag: string;
  readonly size: number;
  /** Milliseconds. */
  readonly modifiedAt: number;
}

/** Events wait here from the transaction that made their object until they are acknowledged. */
export class Outbox {
  readonly #database: StoreDatabase;
  readonly #statements: ReturnType<typeof prepare>;
  readonly #listeners = new Set<() => void>();
  /** The last event that is on the disk: one that might still vanish is not given out. */
  #durable: number;

  constructor(database: StoreDatabase) {
    this.#database = database;
    this.#statements = prepare(database);
    this.#durable = this.#statements.last.get()?.seq ?? 0;
  }

  /** In the transaction of the object. Returns its number, for `written`. */
  add(facts: EventFacts): number {
    const { bucket, key, eTag, size, modified } = facts;
    return Number(this.#statements.add.run(bucket, key, eTag, size, modified, eventJson(facts)).lastInsertRowid);
  }

  /** The event of this number is on the disk, and so are all before it: they are written in order. */
  written(seq: number): void {
    this.#durable = Math.max(this.#durable, seq);
    for (const listener of this.#listeners) listener();
  }

  /** The oldest that are not acknowledged and come after `after`, in order. The same ones again until they are. */
  take(limit: number, after = 0): OutboxEvent[] {
    return this.#statements.take.all(after, this.#durable, limit).map((row) => ({ ...row }));
  }

  async acknowledge(events: number | readonly number[]): Promise<void> {
    await this.#database.remove(() => {
      if (typeof events === 'number') this.#statements.dropUpTo.run(events);
      else for (const seq of events) this.#statements.drop.run(seq);
    });
  }

  /** Wakes the listener when there are new events. It may be woken for nothing. */
  onEvents(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

function prepare(database: StoreDatabase) {
  return {
    last: database.query<{ seq: number | null }>('SELECT max(seq) AS seq FROM event'),
    add: database.query('INSERT INTO event (bucket, key, etag, size, modified, event) VALUES (?, ?, ?, ?, ?, ?)'),
    take: database.query<OutboxEvent>(
      `SELECT seq, event, bucket, key, etag AS eTag, size, modified AS modifiedAt FROM event
       WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?`,
    ),
    dropUpTo: database.query('DELETE FROM event WHERE seq <= ?'),
    drop: database.query('DELETE FROM event WHERE seq = ?'),
  };
}
