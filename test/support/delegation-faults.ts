import { setTimeout as pause } from 'node:timers/promises';
import type { ClusterProcess } from './cluster-processes.ts';
import type { Disturbance } from './delegation-history.ts';
import type { Issuer } from './issuer.ts';
import type { TcpWire } from './tcp-wire.ts';

/** What the faults can be injected into. */
export interface Victims {
  readonly clusters: readonly ClusterProcess[];
  /** The connection from each manager to each other one. */
  readonly links: readonly (readonly TcpWire[])[];
  /** The connections to the stores, which all managers share. */
  readonly stores: readonly TcpWire[];
  readonly issuer: Issuer;
}

interface Fault extends Pick<Disturbance, 'what' | 'store'> {
  /** No victim has two faults at the same time. */
  readonly whom: string;
  readonly last: (ms: number) => Promise<void>;
}

/** Which part of them is longer than a lease, and how long all of them are. */
const LONG_ONES = 0.3;
const SHORT_MS = 1_500;
const LONG_MS = [5_500, 7_500] as const;

/**
 * Kills, pauses, disconnects and slows down managers, their stores and the issuer, several at once, until it is stopped.
 * Then it repairs all faults.
 */
export class Faults {
  readonly #victims: Victims;
  readonly #random: () => number;
  readonly #under = new Set<string>();
  readonly #lanes: Promise<void>[];
  readonly disturbances: Disturbance[] = [];
  #stopped = false;

  constructor(victims: Victims, random: () => number, lanes: number) {
    this.#victims = victims;
    this.#random = random;
    this.#lanes = Array.from({ length: lanes }, () => this.#run());
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all(this.#lanes);
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      await pause(this.#random() * 600);
      const fault = this.#choose();
      if (this.#stopped || this.#under.has(fault.whom)) continue;
      this.#under.add(fault.whom);
      const { what, store } = fault;
      const disturbance: Disturbance = { what, from: Date.now(), until: Infinity, ...(store && { store }) };
      this.disturbances.push(disturbance);
      await fault.last(this.#duration());
      disturbance.until = Date.now();
      this.#under.delete(fault.whom);
    }
  }

  #duration(): number {
    if (this.#random() >= LONG_ONES) return this.#random() * SHORT_MS;
    const [least, most] = LONG_MS;
    return least + this.#random() * (most - least);
  }

  #choose(): Fault {
    const { clusters } = this.#victims;
    const [one, other] = this.#two(clusters.length);
    const lot = this.#random();
    if (lot < 0.25) return this.#killed(one);
    if (lot < 0.4) return this.#paused(one);
    if (lot < 0.65) return this.#apart(one, other);
    if (lot < 0.85) return this.#withoutStore(one);
    return this.#withoutIssuer();
  }

  #two(of: number): [number, number] {
    const one = Math.floor(this.#random() * of);
    return [one, (one + 1 + Math.floor(this.#random() * (of - 1))) % of];
  }

  #killed(one: number): Fault {
    const { clusters } = this.#victims;
    const what = `${clusters[one]?.id} is killed`;
    return { whom: `manager ${one}`, what, last: async (ms) => clusters[one]?.restart(ms) };
  }

  #paused(one: number): Fault {
    const { clusters } = this.#victims;
    const what = `${clusters[one]?.id} is paused`;
    return { whom: `manager ${one}`, what, last: async (ms) => clusters[one]?.freeze(ms) };
  }

  /** In one direction or in both. */
  #apart(one: number, other: number): Fault {
    const { links, clusters } = this.#victims;
    const both = this.#random() < 0.6;
    const ways = [links[one]?.[other], ...(both ? [links[other]?.[one]] : [])].filter((way) => way !== undefined);
    const whom = `link ${Math.min(one, other)} ${Math.max(one, other)}`;
    const direction = `from ${clusters[one]?.id} to ${clusters[other]?.id}${both ? ' and back' : ''}`;
    return { whom, ...this.#onWires(ways, `the way ${direction}`) };
  }

  #withoutStore(one: number): Fault {
    const { stores, clusters } = this.#victims;
    const way = stores[one];
    const id = clusters[one]?.id ?? '';
    return { whom: `store ${one}`, store: id, ...this.#onWires(way ? [way] : [], `the store of ${id}`) };
  }

  #onWires(wires: readonly TcpWire[], name: string): Pick<Fault, 'what' | 'last'> {
    const lot = this.#random();
    const delay = 100 + this.#random() * 1_400;
    const how = lot < 0.4 ? 'cut' : lot < 0.75 ? 'stalled' : `${Math.round(delay)} ms late`;
    const last = async (ms: number) => {
      for (const wire of wires) {
        if (how === 'cut') await wire.cut();
        else if (how === 'stalled') wire.stall();
        else wire.slow(delay);
      }
      await pause(ms);
      for (const wire of wires) await wire.mend();
    };
    return { what: `${name} is ${how}`, last };
  }

  #withoutIssuer(): Fault {
    const { issuer } = this.#victims;
    const whom = 'issuer';
    if (this.#random() < 0.5) {
      const last = async (ms: number) => {
        await issuer.stop();
        await pause(ms);
        await issuer.start();
      };
      return { whom, what: 'the issuer is killed', last };
    }
    const delay = 300 + this.#random() * 5_000;
    const last = async (ms: number) => {
      issuer.slowDown(delay);
      await pause(ms);
      issuer.slowDown(0);
    };
    return { whom, what: `the issuer is ${Math.round(delay)} ms late`, last };
  }
}
