import { hostname } from 'node:os';
import type { DiskSpace } from '../../lib/disk-space.ts';
import type { Demand } from '../../model/job/index.ts';
import {
  type Capacity,
  explainRefusal,
  type NodeCapacity,
  type NodeState,
  type Obstacle,
  type Usage,
} from '../../ports/index.ts';

export interface LocalCapacityOptions {
  /** The name of the node; by default that of this machine. */
  readonly name?: string;
  /** What all jobs together may use. */
  readonly cpu: number;
  readonly memory: number;
  readonly gpu?: number;
  /** What they use now. */
  readonly used: () => Usage;
  /** While it is short, nothing is started. */
  readonly disk?: WatchedSpace | undefined;
}

/** The part of the disk space that matters here. */
type WatchedSpace = Pick<DiskSpace, 'shortage' | 'onChange'>;

const NOTHING: Demand = { cpu: 0, memory: 0, gpu: 0 };

/** This machine as a cluster of one node. Reservations are in memory only: this process alone starts and ends the jobs. */
export class LocalCapacity implements Capacity {
  readonly #name: string;
  readonly #total: Demand;
  readonly #used: () => Usage;
  readonly #reserved = new Map<string, Demand>();
  readonly #listeners = new Set<() => void>();
  readonly #disk: WatchedSpace | undefined;
  #requested = NOTHING;
  #notifying = false;

  constructor({ name = hostname(), cpu, memory, gpu = 0, used, disk }: LocalCapacityOptions) {
    this.#disk = disk;
    disk?.onChange(() => this.#notify());
    this.#name = name;
    this.#total = { cpu, memory, gpu };
    this.#used = used;
  }

  reserve(name: string, demand: Demand): boolean {
    if (this.#reserved.has(name)) return true;
    if (this.shortage() !== undefined) return false;
    if (!fits(add(this.#requested, demand), this.#total)) return false;
    this.hold(name, demand);
    return true;
  }

  hold(name: string, demand: Demand): void {
    if (this.#reserved.has(name)) return;
    this.#reserved.set(name, demand);
    this.#requested = add(this.#requested, demand);
  }

  release(name: string): void {
    const demand = this.#reserved.get(name);
    if (!demand) return;
    this.#reserved.delete(name);
    this.#requested = subtract(this.#requested, demand);
    this.#notify();
  }

  refusal(demand: Demand): string | undefined {
    return explainRefusal(this.#total, demand);
  }

  shortage(): string | undefined {
    return this.#disk?.shortage;
  }

  obstacle(demand: Demand): Obstacle {
    if (!fits(demand, this.#total)) return 'others';
    return this.#requested.gpu + demand.gpu > this.#total.gpu ? 'gpus' : 'ours';
  }

  nodes(): readonly NodeCapacity[] {
    const { cpu, memory } = this.#used();
    const node = { name: this.#name, total: this.#total, requested: this.#requested, used: { cpu, memory } };
    return [this.shortage() === undefined ? { ...node, ready: true } : { ...node, ready: false, state: DISK_PRESSURE }];
  }

  onFreed(listener: () => void): () => void {
    // A new function for each call, so that a listener that is added twice can be removed once.
    const wrapped = () => listener();
    this.#listeners.add(wrapped);
    return () => this.#listeners.delete(wrapped);
  }

  /** Called once for all releases of a tick, and after them: a listener may reserve and release. */
  #notify(): void {
    if (this.#notifying) return;
    this.#notifying = true;
    queueMicrotask(() => {
      this.#notifying = false;
      for (const listener of this.#listeners) listener();
    });
  }
}

/** As a kubelet would report it. */
const DISK_PRESSURE: NodeState = {
  health: 'Ready',
  conditions: [
    { type: 'Ready', status: true },
    { type: 'DiskPressure', status: true },
  ],
  interlink: false,
};

const add = (a: Demand, b: Demand): Demand => ({ cpu: a.cpu + b.cpu, memory: a.memory + b.memory, gpu: a.gpu + b.gpu });

const subtract = (a: Demand, b: Demand): Demand => ({
  cpu: a.cpu - b.cpu,
  memory: a.memory - b.memory,
  gpu: a.gpu - b.gpu,
});

const fits = (demand: Demand, total: Demand) =>
  demand.cpu <= total.cpu && demand.memory <= total.memory && demand.gpu <= total.gpu;
