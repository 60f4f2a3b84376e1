import { cores, gpus, inCores, size } from '../lib/amounts.ts';
import type { Demand } from '../model/job/index.ts';

/** The free capacity of a cluster, kept up to date in memory: no method waits for the network. */
export interface Capacity {
  /** Reserves room for an attempt if one node has it. True also if the attempt has its room already. */
  reserve(name: string, demand: Demand): boolean;

  /** Counts an attempt that already runs, even if there is no room for it by today's settings. */
  hold(name: string, demand: Demand): void;

  /** Releases the room of an attempt; does nothing if it has none. */
  release(name: string): void;

  /** Why no node could run this demand, even if the node were empty; undefined if one could. */
  refusal(demand: Demand): string | undefined;

  /**
   * Why nothing is started now, as a sentence for users; undefined otherwise. While there is a shortage `reserve` finds no
   * room, and `onFreed` reports its end.
   */
  shortage?(): string | undefined;

  /** Why this demand has no room now. */
  obstacle(demand: Demand): Obstacle;

  nodes(): readonly NodeCapacity[];

  /** Calls the listener when there may be more room than before. Returns a function that unsubscribes. */
  onFreed(listener: () => void): () => void;
}

/**
 * `ours`: there will be room when enough jobs of this manager have ended. `gpus`: the same, and GPUs are what is missing.
 * `others`: there will be none even then, because the workloads of others use too much, or nodes accept no work now.
 */
export type Obstacle = 'ours' | 'gpus' | 'others';

/** Millicores and bytes. */
export interface NodeCapacity {
  readonly name: string;
  /** Whether it accepts work. */
  readonly ready: boolean;
  readonly total: Demand;
  /** The sum of the requests of attempts. */
  readonly requested: Demand;
  /** The measured usage. */
  readonly used: { readonly cpu: number; readonly memory: number };
  /** Details from the cluster, where it has more than `ready`. */
  readonly state?: NodeState;
}

/** A healthy node may still accept no work: the operator may have reserved it for others or be draining it. */
export interface NodeState {
  readonly health: 'Ready' | 'NotReady' | 'Unknown';
  readonly conditions: readonly { readonly type: string; readonly status: boolean }[];
  /** A virtual node that represents another system, `is_interlink` in docs/go-manager.md#configuration-and-status. */
  readonly interlink: boolean;
}

/**
 * Why an empty node of this size is too small, as a sentence; undefined if it is large enough.
 *
 * @example
 * explainRefusal({ cpu: 2000, memory: 4 * GiB, gpu: 0 }, { cpu: 8000, memory: GiB, gpu: 0 });
 * // 'it needs 8 cores and the largest node has 2'
 */
export function explainRefusal(total: Demand, demand: Demand): string | undefined {
  const reasons = [
    demand.cpu > total.cpu && `it needs ${cores(demand.cpu)} and the largest node has ${inCores(total.cpu)}`,
    demand.memory > total.memory &&
      `it needs ${size(demand.memory, Math.ceil)} of memory and the largest node has ${size(total.memory, Math.floor)}`,
    demand.gpu > total.gpu && `it needs ${gpus(demand.gpu)} and the largest node has ${total.gpu || 'none'}`,
  ].filter((reason) => reason !== false);
  return reasons.length === 0 ? undefined : reasons.join('; ');
}
