import { cores, gpus, inCores, size } from '../../lib/amounts.ts';
import type { Free, Snapshot } from '../../model/cluster-snapshot.ts';
import type { Demand } from '../../model/job/index.ts';
import type { Candidate, KnownCandidate } from './policy.ts';

/** Whether one node of the candidate has all that the job needs, or nothing is known of it. */
export function mayHaveRoom(demand: Demand, candidate: Candidate): boolean {
  return !isKnown(candidate) || hasRoom(demand, candidate);
}

function hasRoom(demand: Demand, candidate: KnownCandidate): boolean {
  const left = freeCapacity(candidate);
  return fits(demand, left) && candidate.snapshot.nodes.some((node) => fits(demand, freeOn(node, left, candidate)));
}

/**
 * Why a candidate has no room for a job, as a sentence; undefined when it has, or when nothing is known of it. One node
 * must have all that the job needs, and exactly that is enough (F16).
 *
 * @example
 * roomFor({ cpu: 4000, memory: GiB, gpu: 0 }, candidate);
 * // 'it needs 4 cores and no node has more than 2 free'
 */
export function explainNoRoom(demand: Demand, candidate: Candidate): string | undefined {
  if (!isKnown(candidate)) return undefined;
  if (candidate.snapshot.nodes.length === 0) return 'it has no node that takes work now';
  if (hasRoom(demand, candidate)) return undefined;
  const nodes = nodesOf(candidate);
  const before = nodesOf({ ...candidate, inFlight: NOTHING });
  const counted = before.some((node) => fits(demand, node)) ? ', counting what was just sent there' : '';
  return shortOf(demand, nodes) + counted;
}

/** The free capacity of all nodes together, without what was just sent there. */
export function freeCapacity({ snapshot: { nodes, freeCpu }, inFlight }: KnownCandidate): Free {
  let [memory, gpu] = [0, 0];
  for (const node of nodes) {
    memory += atLeastNone(node.memory);
    gpu += atLeastNone(node.gpu);
  }
  return {
    cpu: atLeastNone(freeCpu - inFlight.cpu),
    memory: atLeastNone(memory - inFlight.memory),
    gpu: atLeastNone(gpu - inFlight.gpu),
  };
}

const NOTHING: Demand = { cpu: 0, memory: 0, gpu: 0 };

const atLeastNone = (value: number) => Math.max(0, value);

/**
 * It is unknown which node runs the jobs that were just sent, so no node has more than the rest of the total. It is
 * also unknown which node got capacity back, so each of them may have.
 */
function freeOn(node: Free, left: Free, { inFlight }: KnownCandidate): Free {
  return {
    cpu: Math.min(atLeastNone(node.cpu) + atLeastNone(-inFlight.cpu), left.cpu),
    memory: Math.min(atLeastNone(node.memory) + atLeastNone(-inFlight.memory), left.memory),
    gpu: Math.min(atLeastNone(node.gpu) + atLeastNone(-inFlight.gpu), left.gpu),
  };
}

function nodesOf(candidate: KnownCandidate): Free[] {
  const left = freeCapacity(candidate);
  return candidate.snapshot.nodes.map((node) => freeOn(node, left, candidate));
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

/**
 * How old a snapshot may be, in milliseconds. With a smaller value, a member that missed one or two refreshes is asked
 * last although it may be idle. With a larger one, offers are based on old figures, and each wrong offer costs a round
 * trip.
 */
export const STALE = 60_000;

/** Does the candidate have a valid snapshot? An `endpoint` is any URL and has none. */
export function isKnown(candidate: Candidate): candidate is KnownCandidate {
  const { type, snapshot } = candidate;
  return type === 'oscar' && snapshot !== undefined && snapshot.age <= STALE && isSensible(snapshot);
}

/** Other managers sent these numbers: a value that is not finite would spoil the scores of all candidates. */
function isSensible({ nodes, freeCpu, nodeCount, roundTrip = 0, meanDuration = 0, pending = 0 }: Snapshot): boolean {
  const isTotalSensible =
    isFiniteNumber(freeCpu) &&
    isFiniteNumber(nodeCount) &&
    isFiniteNumber(roundTrip) &&
    isFiniteNumber(meanDuration) &&
    isFiniteNumber(pending);
  return (
    isTotalSensible &&
    nodes.every(({ cpu, memory, gpu }) => isFiniteNumber(cpu) && isFiniteNumber(memory) && isFiniteNumber(gpu))
  );
}

const isFiniteNumber = (value: number) => Math.abs(value) <= Number.MAX_SAFE_INTEGER;
