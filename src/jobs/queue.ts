import type { Demand, JobKey, Obstacle } from '../cluster/index.ts';

/** A job that waits for room. */
export interface Waiting {
  readonly key: JobKey;
  /** Of its service: owners take turns, so that the thousand jobs of one do not starve the one of another. */
  readonly owner: string;
  readonly demand: Demand;
  /** Whoever caused it waits for its answer. */
  readonly call?: boolean;
}

interface Entry extends Waiting {
  gone: boolean;
  /** How many were started while it was the next of its owner and found no room. */
  overtaken: number;
}

/**
 * How often a job that needs more room than there is may be overtaken by smaller ones of other owners. Fewer: room stays
 * empty while the large one waits. More: on a busy cluster it waits for ever.
 */
export const MOST_OVERTAKEN = 32;

/** What becomes of one that nobody may overtake any more, and that still finds no room. */
export interface Blocked {
  readonly obstacleOf: (waiting: Waiting) => Obstacle;
  /** To keep room for it would not help: it is taken out of line. */
  readonly setAside: (waiting: Waiting) => void;
}

/** Who is next: strictly in order of arrival for one owner, in turns between owners. */
export class FairQueue {
  /** In the order of turns. An owner without a job that waits is not in it. */
  readonly #owners = new Map<string, Line>();
  readonly #entries = new Map<string, Entry>();

  get size(): number {
    return this.#entries.size;
  }

  has(key: JobKey): boolean {
    return this.#entries.has(nameOf(key));
  }

  /** Again: nothing happens. */
  add(waiting: Waiting): void {
    const name = nameOf(waiting.key);
    if (this.#entries.has(name)) return;
    const entry: Entry = { ...waiting, gone: false, overtaken: 0 };
    this.#entries.set(name, entry);
    const line = this.#owners.get(waiting.owner);
    if (line) line.push(entry);
    else this.#owners.set(waiting.owner, new Line(entry));
  }

  remove(key: JobKey): void {
    const entry = this.#entries.get(nameOf(key));
    if (!entry) return;
    entry.gone = true;
    this.#entries.delete(nameOf(key));
    if (!this.#owners.get(entry.owner)?.first) this.#owners.delete(entry.owner);
  }

  /** Takes the next one for which `reserve` finds room. */
  take(reserve: (waiting: Waiting) => boolean, { obstacleOf, setAside }: Blocked): Waiting | undefined {
    const passed: Entry[] = [];
    let gpusAreKept = false;
    for (const [owner, line] of this.#owners) {
      for (let entry = line.first; entry; entry = line.first) {
        if (gpusAreKept && entry.demand.gpu > 0) break;
        if (reserve(entry)) {
          for (const each of passed) each.overtaken++;
          this.remove(entry.key);
          // To the end of the turns, if there is more.
          if (this.#owners.delete(owner) && line.first) this.#owners.set(owner, line);
          return entry;
        }
        if (entry.overtaken < MOST_OVERTAKEN) {
          passed.push(entry);
          break;
        }
        const obstacle = obstacleOf(entry);
        if (obstacle === 'ours') return undefined;
        if (obstacle === 'gpus') {
          gpusAreKept = true;
          break;
        }
        this.remove(entry.key);
        setAside(entry);
      }
    }
    return undefined;
  }
}

/** First in, first out; what is gone is dropped when it comes to the front. */
class Line {
  #entries: Entry[];
  #head = 0;

  constructor(first: Entry) {
    this.#entries = [first];
  }

  push(entry: Entry): void {
    this.#entries.push(entry);
  }

  get first(): Entry | undefined {
    while (this.#entries[this.#head]?.gone) this.#head++;
    // Shifted in one go now and then, since one by one is slow for long lines.
    if (this.#head > 1024 && this.#head * 2 > this.#entries.length) {
      this.#entries = this.#entries.slice(this.#head);
      this.#head = 0;
    }
    return this.#entries[this.#head];
  }
}

const nameOf = ({ service, id }: JobKey) => `${service}/${id}`;
