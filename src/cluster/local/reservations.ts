import type { Reservation } from '../service-store.ts';
import type { Database, Query } from './database.ts';

/** Names that were taken and have no service yet. */
export class Reservations {
  readonly #find: Query<{ made_at: number }>;
  readonly #put: Query<never>;
  readonly #take: Query<never>;

  constructor(database: Database) {
    this.#find = database.query('SELECT made_at FROM reservations WHERE name = ?');
    this.#put = database.query('INSERT OR REPLACE INTO reservations (name, uid, made_at) VALUES (?, ?, ?)');
    this.#take = database.query('DELETE FROM reservations WHERE name = ? AND uid = ?');
  }

  madeAt(name: string): number | undefined {
    return this.#find.get(name)?.made_at;
  }

  put({ name, uid }: Reservation, now: number): void {
    this.#put.run(name, uid, now);
  }

  /** Removes it; false when it is no longer held. */
  take({ name, uid }: Reservation): boolean {
    return this.#take.run(name, uid).changes === 1;
  }
}
