import { cores, gpus, inCores, size } from '../lib/amounts.ts';
import type { Demand } from '../model/job/index.ts';

/** What a cluster can still take, kept up to date; never asked for over a network while somebody waits. */
export interface Capacity {
  /** Takes room for an attempt, if one node has it. For an attempt that has its room already: true. */
  reserve(name: string, demand: Demand): boolean;

  /** Counts an attempt that runs already, whether there is room for it by today's settings or not. */
  hold(name: string, demand: Demand): void;

  /** Gives it back. Of an attempt that has none: nothing. */
  release(name: string): void;

  /** Why no node could take it, even an empty one; undefined when one could. */
  refusal(demand: Demand): string | undefined;

  /** What keeps this from having room, of a demand that has none now. */
  obstacle(demand: Demand): Obstacle;

  nodes(): readonly NodeCapacity[];

  /** Calls the listener when there may be more room than before. Call what it returns to end that. */
  onFreed(listener: () => void): () => void;
}

/**
 * `ours`: it has room when enough of ours has ended. `gpus`: the same, and there are too few GPUs for it, whatever else is free.
 * `others`: not even then, for what others run leaves too little, or the nodes take no work now.
 */
export type Obstacle = 'ours' | 'gpus' | 'others';

/** Millicores and bytes. */
export interface NodeCapacity {
  readonly name: string;
  /** Does it take work? */
  readonly ready: boolean;
  readonly total: Demand;
  /** What attempts have asked for. */
  readonly requested: Demand;
  /** What is really in use. */
  readonly used: { readonly cpu: number; readonly memory: number };
  /** What the cluster says of it, where nodes have more to say than that they are ready. */
  readonly state?: NodeState;
}

/** A node that is well takes no work all the same when its operator keeps it for others, or empties it. */
export interface NodeState {
  readonly health: 'Ready' | 'NotReady' | 'Unknown';
  readonly conditions: readonly { readonly type: string; readonly status: boolean }[];
  /** A node that stands for another system, `is_interlink` in docs/go-manager.md#configuration-and-status. */
  readonly interlink: boolean;
}

/**
 * Why a node with nothing on it is too small, as a sentence; undefined when it is not.
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
