import type { JobObserver } from '../../jobs/index.ts';
import type { Free, Snapshot } from '../../model/cluster-snapshot.ts';
import type { JobRecord } from '../../model/job/index.ts';
import type { NodeCapacity } from '../../ports/index.ts';
import { MovingAverage } from './scoreboard.ts';

/**
 * How long recent jobs took on this cluster. Calls are left out: whoever waits for an answer waits here, so they say nothing
 * about a job that may go elsewhere.
 */
export class LocalDurations implements Required<Pick<JobObserver, 'finished'>> {
  readonly #clusterId: string;
  readonly #seconds = new MovingAverage();

  constructor(clusterId: string) {
    this.#clusterId = clusterId;
  }

  /** In seconds; undefined before the first one has ended. */
  get mean(): number | undefined {
    return this.#seconds.value;
  }

  finished({ state, trigger, attempts }: JobRecord): void {
    const { place, startedAt, finishedAt } = attempts.at(-1) ?? {};
    if (state === 'cancelled' || trigger === 'run' || place !== this.#clusterId) return;
    if (startedAt !== undefined && finishedAt !== undefined) this.#seconds.add((finishedAt - startedAt) / 1000);
  }
}

/** This cluster as others see it: what is not asked for by anybody, on nodes that take work, and how long jobs take, in seconds. */
export function snapshotFromNodes(nodes: readonly NodeCapacity[], meanDuration?: number): Snapshot {
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

function freeOn({ total, requested }: NodeCapacity): Free {
  const left = (dimension: keyof Free) => Math.max(0, total[dimension] - requested[dimension]);
  return { cpu: left('cpu'), memory: left('memory'), gpu: left('gpu') };
}
