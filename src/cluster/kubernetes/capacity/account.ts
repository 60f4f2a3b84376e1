import type { Demand } from '../../job-record.ts';
import { difference, isWithin, NOTHING, sum } from './amounts.ts';
import type { SeenNode } from './seen-node.ts';

/** What is on one node: its pods, and what has room there and has no pod yet. Kept up to date, never counted again. */
export class Account {
  readonly name: string;
  /** Absent while only its pods were seen, or only they are left. */
  node: SeenNode | undefined;
  #requested = NOTHING;
  #pods = 0;
  /** Of these, what is not of ours. */
  #foreign = NOTHING;
  #foreignPods = 0;

  constructor(name: string) {
    this.name = name;
  }

  get requested(): Demand {
    return this.#requested;
  }

  get isEmpty(): boolean {
    return this.#pods === 0;
  }

  put(demand: Demand, isOurs: boolean): void {
    this.#requested = sum(this.#requested, demand);
    this.#pods++;
    if (isOurs) return;
    this.#foreign = sum(this.#foreign, demand);
    this.#foreignPods++;
  }

  take(demand: Demand, isOurs: boolean): void {
    this.#requested = difference(this.#requested, demand);
    this.#pods--;
    if (isOurs) return;
    this.#foreign = difference(this.#foreign, demand);
    this.#foreignPods--;
  }

  /** Is there room for one more? */
  fits(demand: Demand): boolean {
    const { node } = this;
    return node !== undefined && this.#pods < node.pods && isWithin(sum(this.#requested, demand), node.total);
  }

  /** Would there be, without all that is ours? */
  couldFit(demand: Demand): boolean {
    const { node } = this;
    return node !== undefined && this.#foreignPods < node.pods && isWithin(sum(this.#foreign, demand), node.total);
  }

  /** More is said to be on it than it has: something came that was expected elsewhere. */
  get isOverfull(): boolean {
    const { node } = this;
    return node !== undefined && (this.#pods > node.pods || !isWithin(this.#requested, node.total));
  }

  /** From 0 to 1, and below when there is too little: the part of it that is left beside this, of cpu and memory alike. */
  leftBeside({ cpu, memory }: Demand): number {
    const { total = NOTHING } = this.node ?? {};
    const part = (all: number, taken: number) => (all === 0 ? 0 : (all - taken) / all);
    return (part(total.cpu, this.#requested.cpu + cpu) + part(total.memory, this.#requested.memory + memory)) / 2;
  }
}
