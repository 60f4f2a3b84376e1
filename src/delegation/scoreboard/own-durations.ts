import type { JobRecord } from '../../cluster/index.ts';
import type { JobObserver } from '../../jobs/index.ts';
import { RecentMean } from './recent-mean.ts';

/**
 * How long recent jobs took on this cluster. Calls are left out: whoever waits for an answer waits here, so they say nothing
 * about a job that may go elsewhere.
 */
export class OwnDurations implements Required<Pick<JobObserver, 'finished'>> {
  readonly #clusterId: string;
  readonly #seconds = new RecentMean();

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
