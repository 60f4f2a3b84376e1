import { cores, gpus, inCores, size } from '../../base/amounts.ts';
import type { Demand } from '../../cluster/index.ts';
import { isKnown } from './known.ts';
import type { Candidate, Free, Known } from './policy.ts';

/**
 * Why a candidate has no room for a job, as a sentence; undefined when it has, or when nothing is known of it. One node
 * must have all that the job needs, and exactly that is enough (F16).
 *
 * @example
 * roomFor({ cpu: 4000, memory: GiB, gpu: 0 }, candidate);
 * // 'it needs 4 cores and no node has more than 2 free'
 */
export function roomFor(demand: Demand, candidate: Candidate): string | undefined {
  if (!isKnown(candidate)) return undefined;
  if (candidate.snapshot.nodes.length === 0) return 'it has no node that takes work now';
  const nodes = nodesOf(candidate);
  if (nodes.some((node) => fits(demand, node))) return undefined;
  const before = nodesOf({ ...candidate, inFlight: NOTHING });
  const counted = before.some((node) => fits(demand, node)) ? ', counting what was just sent there' : '';
  return shortOf(demand, nodes) + counted;
}

/** What is free on all nodes together, without what was just sent there. */
export function freeIn({ snapshot: { nodes, freeCpu }, inFlight }: Known): Free {
  const sum = (dimension: 'memory' | 'gpu') => nodes.reduce((total, node) => total + atLeastNone(node[dimension]), 0);
  return {
    cpu: atLeastNone(freeCpu - inFlight.cpu),
    memory: atLeastNone(sum('memory') - inFlight.memory),
    gpu: atLeastNone(sum('gpu') - inFlight.gpu),
  };
}

const NOTHING: Demand = { cpu: 0, memory: 0, gpu: 0 };

const atLeastNone = (value: number) => Math.max(0, value);

/** Nobody knows which node takes what was just sent there: none of them has more than is left of all. */
function nodesOf(candidate: Known): Free[] {
  const left = freeIn(candidate);
  return candidate.snapshot.nodes.map(({ cpu, memory, gpu }) => ({
    cpu: Math.min(atLeastNone(cpu), left.cpu),
    memory: Math.min(atLeastNone(memory), left.memory),
    gpu: Math.min(atLeastNone(gpu), left.gpu),
  }));
}

const fits = (demand: Demand, node: Free) =>
  demand.cpu <= node.cpu && demand.memory <= node.memory && demand.gpu <= node.gpu;

function shortOf(demand: Demand, nodes: readonly Free[]): string {
  const most = (dimension: keyof Free) => Math.max(...nodes.map((node) => node[dimension]));
  const [cpu, memory, gpu] = [most('cpu'), most('memory'), most('gpu')];
  const reasons = [
    demand.cpu > cpu && `it needs ${cores(demand.cpu)} and no node has more than ${inCores(cpu)} free`,
    demand.memory > memory &&
      `it needs ${size(demand.memory, Math.ceil)} of memory and no node has more than ${size(memory, Math.floor)} free`,
    demand.gpu > gpu && `it needs ${gpus(demand.gpu)} and no node has more than ${gpu} free`,
  ].filter((reason) => reason !== false);
  return reasons.join('; ') || `no node has ${all(demand)} free at once`;
}

function all({ cpu, memory, gpu }: Demand): string {
  const parts = [cpu > 0 && cores(cpu), memory > 0 && `${size(memory, Math.ceil)} of memory`, gpu > 0 && gpus(gpu)];
  return parts.filter((part) => part !== false).join(' and ');
}
