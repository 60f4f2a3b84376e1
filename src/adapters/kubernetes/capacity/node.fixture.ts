import type { SeenNode } from './seen-node.ts';

export interface NodeSample extends Partial<Omit<SeenNode, 'total' | 'state'>> {
  readonly cpu?: number;
  readonly memory?: number;
  readonly gpu?: number;
}

/** A worker that is well, unless told otherwise. */
export function node({ cpu = 0, memory = 0, gpu = 0, ...more }: NodeSample): SeenNode {
  return {
    total: { cpu, memory, gpu },
    pods: 110,
    chosen: true,
    open: true,
    takesWork: true,
    controlPlane: false,
    state: { health: 'Ready', conditions: [], interlink: false },
    ...more,
  };
}
