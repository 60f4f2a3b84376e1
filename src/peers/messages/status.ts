import { type Field, fields, mapRead, optional, type Read, wholeNumber } from '../../lib/fields.ts';
import type { Snapshot } from '../../model/cluster-snapshot.ts';

interface WireStatus {
  readonly nodes: readonly { readonly cpu: number; readonly memory: number; readonly gpu: number }[];
  readonly node_count: number;
  readonly free_cpu: number;
  readonly pending?: number;
  readonly mean_duration?: number;
}

const amount: Field<number> = {
  is: 'a number that is not below zero',
  read: (raw) => (typeof raw === 'number' && Number.isFinite(raw) && raw >= 0 ? raw : undefined),
};

const readNode = fields({ cpu: amount, memory: amount, gpu: amount });

const readWireStatus = fields<WireStatus>({
  nodes: {
    is: 'a list of nodes with cpu, memory and gpu',
    read: (raw) => {
      const nodes = Array.isArray(raw) ? raw.map(readNode) : [undefined];
      return nodes.every((each) => each !== undefined && 'value' in each) ? nodes.map(({ value }) => value) : undefined;
    },
  },
  node_count: wholeNumber,
  free_cpu: amount,
  pending: optional(wholeNumber),
  mean_duration: optional(amount),
});

/** What members tell each other of their clusters: less than the status that people see, since it is asked for all the time. */
export function writeStatus({ nodes, nodeCount, freeCpu, pending, meanDuration }: Snapshot): WireStatus {
  return {
    nodes: nodes.map(({ cpu, memory, gpu }) => ({ cpu, memory, gpu })),
    node_count: nodeCount,
    free_cpu: freeCpu,
    ...(pending !== undefined && { pending }),
    ...(meanDuration !== undefined && { mean_duration: meanDuration }),
  };
}

export function readStatus(raw: unknown): Read<Snapshot> {
  return mapRead(readWireStatus(raw), ({ nodes, node_count, free_cpu, pending, mean_duration }) => ({
    nodes,
    nodeCount: node_count,
    freeCpu: free_cpu,
    age: 0,
    ...(pending !== undefined && { pending }),
    ...(mean_duration !== undefined && { meanDuration: mean_duration }),
  }));
}
