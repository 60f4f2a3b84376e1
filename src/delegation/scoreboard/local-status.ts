import type { JobObserver } from '../../jobs/index.ts';
import { type Free, type Snapshot, sumFree } from '../../model/cluster-snapshot.ts';
import type { JobRecord } from '../../model/job/index.ts';
import type { NodeCapacity } from '../../ports/index.ts';
import { DurationsByService, MovingAverage } from './scoreboard.ts';

/**
 * How long recent jobs took on this cluster. Synchronous calls are left out: they always run here, so they say nothing
 * about a job that may be delegated.
 */
export class LocalDurations implements Required<Pick<JobObserver, 'finished'>> {
  readonly #clusterId: string;
  readonly #seconds = new MovingAverage();
  readonly #byService = new DurationsByService();

  constructor(clusterId: string) {
    this.#clusterId = clusterId;
  }

  /** In seconds; undefined before the first job has ended. */
  get mean(): number | undefined {
    return this.#seconds.value;
  }

  /** In seconds; undefined before the first job of the service has ended. */
  of(service: string): number | undefined {
    return this.#byService.of(service);
  }

  finished({ service, state, trigger, attempts }: JobRecord): void {
    const { place, startedAt, finishedAt } = attempts.at(-1) ?? {};
    if (state === 'cancelled' || trigger === 'run' || place !== this.#clusterId) return;
    if (startedAt === undefined || finishedAt === undefined) return;
    this.#seconds.add((finishedAt - startedAt) / 1000);
    this.#byService.add(service, (finishedAt - startedAt) / 1000);
  }
}

/**
 * This cluster as other managers see it: capacity that no pod or job has requested, on nodes that accept work, and the
 * mean duration of jobs in seconds.
 */
export function snapshotFromNodes(nodes: readonly NodeCapacity[], meanDuration?: number): Snapshot {
  const ready = nodes.filter((node) => node.ready);
  const free = ready.map(freeOn);
  return {
    nodes: free,
    freeCpu: free.reduce((sum, { cpu }) => sum + cpu, 0),
    nodeCount: nodes.length,
    age: 0,
    roundTrip: 0,
    ...(meanDuration !== undefined && { meanDuration }),
    total: sumFree(ready.map(({ total }) => total)),
  };
}

function freeOn({ total, requested }: NodeCapacity): Free {
  const left = (dimension: keyof Free) => Math.max(0, total[dimension] - requested[dimension]);
  return { cpu: left('cpu'), memory: left('memory'), gpu: left('gpu') };
}
