import type { Demand, JobKey } from '../cluster/index.ts';
import { roomName as nameOf } from './jobs.ts';
import type { Waiting } from './queue.ts';

/** Jobs that do not stand in line, because waiting there would not help them. They hold up nobody. */
export class OutOfLine {
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

  /** Takes out those that it would help by now. */
  takeFitting(fitsNow: (demand: Demand) => boolean): Waiting[] {
    // Those of one service ask for the same, and there may be thousands.
    const fits = new Map<string, boolean>();
    const found = [...this.#jobs.values()].filter(({ demand }) => {
      const asked = `${demand.cpu}/${demand.memory}/${demand.gpu}`;
      const known = fits.get(asked) ?? fitsNow(demand);
      fits.set(asked, known);
      return known;
    });
    for (const { key } of found) this.remove(key);
    return found;
  }
}
