import type { Capacity, JobKey } from '../cluster/index.ts';
import { roomName as nameOf } from './jobs.ts';
import type { Waiting } from './queue.ts';

/** Jobs that no node could take when they came, even an empty one. They hold up nobody. */
export class Refused {
  readonly #jobs = new Map<string, Waiting>();

  has(key: JobKey): boolean {
    return this.#jobs.has(nameOf(key));
  }

  add(waiting: Waiting): void {
    this.#jobs.set(nameOf(waiting.key), waiting);
  }

  /** Of one that is not here: nothing. */
  remove(key: JobKey): void {
    this.#jobs.delete(nameOf(key));
  }

  /** Takes out those that a node could take by now. */
  takeFitting(capacity: Pick<Capacity, 'refusal'>): Waiting[] {
    // Those of one service ask for the same, and there may be thousands.
    const fits = new Map<string, boolean>();
    const found = [...this.#jobs.values()].filter(({ demand }) => {
      const asked = `${demand.cpu}/${demand.memory}/${demand.gpu}`;
      const known = fits.get(asked) ?? capacity.refusal(demand) === undefined;
      fits.set(asked, known);
      return known;
    });
    for (const { key } of found) this.remove(key);
    return found;
  }
}
