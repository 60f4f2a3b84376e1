import type { NodeInfo } from './node-info.ts';

export interface NodeSample extends Partial<Omit<NodeInfo, 'total' | 'state'>> {
  readonly cpu?: number;
  readonly memory?: number;
  readonly gpu?: number;
}

/** A healthy worker node, unless the options say otherwise. */
export function nodeInfo({ cpu = 0, memory = 0, gpu = 0, ...more }: NodeSample): NodeInfo {
  return {
    total: { cpu, memory, gpu },
    pods: 110,
    selected: true,
    eligible: true,
    schedulable: true,
    controlPlane: false,
    state: { health: 'Ready', conditions: [], interlink: false },
    ...more,
  };
}
