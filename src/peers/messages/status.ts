import {
  type Field,
  fields,
  isObject,
  mapRead,
  nested,
  optional,
  type Read,
  wholeNumberField,
} from '../../lib/fields.ts';
import type { Free, Snapshot } from '../../model/cluster-snapshot.ts';

interface WireStatus {
  readonly nodes: readonly { readonly cpu: number; readonly memory: number; readonly gpu: number }[];
  readonly node_count: number;
  readonly free_cpu: number;
  readonly pending?: number;
  readonly mean_duration?: number;
  readonly serial?: number;
  readonly considering?: Free;
  readonly queue?: number;
  readonly total?: Free;
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
  node_count: wholeNumberField,
  free_cpu: amount,
  pending: optional(wholeNumberField),
  mean_duration: optional(amount),
  serial: optional(wholeNumberField),
  considering: optional(nested('an object with cpu, memory and gpu', readNode)),
  queue: optional(wholeNumberField),
  total: optional(nested('an object with cpu, memory and gpu', readNode)),
});

/** What members tell each other of their clusters: less than the status that people see, since it is asked for all the time. */
export function writeStatus(snapshot: Snapshot): WireStatus {
  const { nodes, nodeCount, freeCpu, pending, meanDuration, serial, considering, queue, total } = snapshot;
  return {
    nodes: nodes.map(({ cpu, memory, gpu }) => ({ cpu, memory, gpu })),
    node_count: nodeCount,
    free_cpu: freeCpu,
    ...(pending !== undefined && { pending }),
    ...(meanDuration !== undefined && { mean_duration: meanDuration }),
    ...(serial !== undefined && { serial }),
    ...(considering && { considering }),
    ...(queue !== undefined && { queue }),
    ...(total && { total }),
  };
}

export function readStatus(raw: unknown): Read<Snapshot> {
  return mapRead(readWireStatus(raw), ({ nodes, node_count, free_cpu, mean_duration, ...same }) => ({
    nodes,
    nodeCount: node_count,
    freeCpu: free_cpu,
    age: 0,
    ...(mean_duration !== undefined && { meanDuration: mean_duration }),
    ...same,
  }));
}

/**
 * The most nodes of which a message about a job tells the room. One job changes little in a larger cluster, whose room is
 * asked for now and then; with a larger limit each message gets longer.
 */
const MAX_ROOM_NODES = 64;

/**
 * The room of a cluster, as part of an answer to an offer or of a report. Absent without a serial: the origin could not
 * tell whether the figures are newer than those it has.
 */
export function writeRoom(snapshot: Snapshot | undefined): { readonly room?: WireStatus } {
  if (snapshot?.serial === undefined || snapshot.nodes.length > MAX_ROOM_NODES) return {};
  // The size of a cluster rarely changes, so a message about a job does not repeat it.
  const { total: _, ...changing } = snapshot;
  return { room: writeStatus(changing) };
}

/** Figures that are malformed count as absent: they are no reason to reject the message that contains them. */
export function readRoom(raw: unknown): { readonly room?: Snapshot } {
  const read = readStatus(isObject(raw) ? raw['room'] : undefined);
  if ('problems' in read || read.value.serial === undefined || read.value.nodes.length > MAX_ROOM_NODES) return {};
  return { room: read.value };
}
