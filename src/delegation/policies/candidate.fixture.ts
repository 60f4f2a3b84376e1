import type { Free, Snapshot } from '../../model/cluster-snapshot.ts';
import type { Demand } from '../../model/job/index.ts';
import type { Candidate, Ranking } from './policy.ts';

export const GiB = 1024 ** 3;

export const NOTHING: Demand = { cpu: 0, memory: 0, gpu: 0 };

/** One core and one GiB. */
export const SMALL: Demand = { cpu: 1000, memory: GiB, gpu: 0 };

/** A fresh snapshot: a node for each number of cores, with 64 GiB and no GPU. */
export function clusterWith(cores: readonly number[], others: Partial<Snapshot> = {}): Snapshot {
  const nodes = cores.map((each): Free => ({ cpu: each * 1000, memory: 64 * GiB, gpu: 0 }));
  return {
    nodes,
    freeCpu: nodes.reduce((sum, { cpu }) => sum + cpu, 0),
    nodeCount: nodes.length,
    age: 0,
    roundTrip: 50,
    meanDuration: 10,
    pending: 0,
    ...others,
  };
}

/** A member at the cluster of that name. */
export function memberOn(cluster: string, others: Partial<Candidate> = {}): Candidate {
  return {
    member: `${cluster}/demo`,
    type: 'oscar',
    isSelf: false,
    priority: 0,
    snapshot: clusterWith([8]),
    inFlight: NOTHING,
    ...others,
  };
}

/** Names of the clusters, in the order of the ranking. */
export const namesIn = (rankings: readonly Ranking[]) =>
  rankings.map(({ candidate }) => candidate.member.replace(/\/demo$/, ''));

/** Random numbers for tests whose result does not depend on them. */
export const never = () => 0;
