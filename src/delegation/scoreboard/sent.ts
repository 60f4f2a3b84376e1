import type { Demand } from '../../cluster/index.ts';
import { STALE } from '../policy/index.ts';

/** One job on its way to a cluster. */
export interface Shipment {
  /** It was taken: it counts until the cluster itself shows it. */
  arrived(): void;
  /** It was not. */
  refused(): void;
}

interface Entry {
  readonly demand: Demand;
  arrivedAt?: number;
}

/** What was sent to one cluster and is not in what it says of itself. */
export class Sent {
  readonly #entries = new Set<Entry>();
  readonly #elapsed: () => number;
  readonly #total = { cpu: 0, memory: 0, gpu: 0 };

  constructor(elapsed: () => number) {
    this.#elapsed = elapsed;
  }

  get total(): Demand {
    return { ...this.#total };
  }

  /** How many were offered and not answered yet. */
  get undecided(): number {
    return [...this.#entries].filter(({ arrivedAt }) => arrivedAt === undefined).length;
  }

  add(demand: Demand): Shipment {
    this.#forgetOld();
    const entry: Entry = { demand };
    this.#entries.add(entry);
    this.#count(demand, 1);
    return {
      arrived: () => void (entry.arrivedAt ??= this.#elapsed()),
      refused: () => this.#drop(entry),
    };
  }

  /** The cluster has said what is free, asked at this moment: what had arrived by then is in it. */
  shown(askedAt: number): void {
    for (const entry of this.#entries) if ((entry.arrivedAt ?? Infinity) < askedAt) this.#drop(entry);
  }

  /** A cluster that takes jobs and never says what is free is unknown: what it was sent counts for nothing. */
  #forgetOld(): void {
    const oldest = this.#elapsed() - STALE;
    for (const entry of this.#entries) {
      if ((entry.arrivedAt ?? Infinity) >= oldest) return;
      this.#drop(entry);
    }
  }

  #drop(entry: Entry): void {
    if (this.#entries.delete(entry)) this.#count(entry.demand, -1);
  }

  #count({ cpu, memory, gpu }: Demand, sign: 1 | -1): void {
    this.#total.cpu += sign * cpu;
    this.#total.memory += sign * memory;
    this.#total.gpu += sign * gpu;
  }
}
