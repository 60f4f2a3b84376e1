import type { NodeRoom } from '../../cluster/index.ts';
import type { Free, Snapshot } from '../policy/index.ts';

/** This cluster as others see it: what is not asked for by anybody, on nodes that take work, and how long jobs take, in seconds. */
export function snapshotOfNodes(nodes: readonly NodeRoom[], meanDuration?: number): Snapshot {
  const free = nodes.filter(({ ready }) => ready).map(freeOn);
  return {
    nodes: free,
    freeCpu: free.reduce((sum, { cpu }) => sum + cpu, 0),
    nodeCount: nodes.length,
    age: 0,
    roundTrip: 0,
    ...(meanDuration !== undefined && { meanDuration }),
  };
}

function freeOn({ total, requested }: NodeRoom): Free {
  const left = (dimension: keyof Free) => Math.max(0, total[dimension] - requested[dimension]);
  return { cpu: left('cpu'), memory: left('memory'), gpu: left('gpu') };
}
