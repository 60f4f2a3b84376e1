import type { Free, Snapshot } from '../../model/cluster-snapshot.ts';
import type { Demand } from '../../model/job/index.ts';
import type { TargetConfig } from './target.ts';

/**
 * Jobs of other clusters may wait here for room, up to this many for each running job. With a larger value, jobs wait here
 * that another member could start sooner; with a smaller one, slots are idle between two short jobs, because the next one
 * arrives only a round trip after the last one has ended.
 */
const QUEUED_PER_RUNNING = 2;

interface TargetRoomDeps extends Pick<TargetConfig, 'ownStatus' | 'now'> {
  readonly dispatcher: Pick<TargetConfig['dispatcher'], 'running' | 'waiting'>;
}

/** The room of this cluster, as its origins are told in every message about a job. */
export class TargetRoom {
  readonly #deps: TargetRoomDeps;
  /** What is reserved for offers that are not answered yet, by the id of the origin's cluster. */
  readonly #considering = new Map<string, Free>();
  /** Offers of jobs that will wait here and are not in the queue yet. */
  #entering = 0;
  #serial = 0;

  constructor(deps: TargetRoomDeps) {
    this.#deps = deps;
  }

  /** How many more jobs of other clusters may wait here. 0 at a manager that does not lead: it does not know the queue. */
  get queue(): number {
    const { running, waiting } = this.#deps.dispatcher;
    return Math.max(0, QUEUED_PER_RUNNING * running - waiting - this.#entering);
  }

  /** Counts room that is reserved for an offer, until the returned function is called. */
  consider(origin: string, demand: Demand): () => void {
    this.#add(origin, demand, 1);
    return () => this.#add(origin, demand, -1);
  }

  /** Counts an offer whose job will wait in the queue, until the returned function is called. */
  enter(): () => void {
    this.#entering++;
    return () => void this.#entering--;
  }

  /** The figures for one origin. The serial also grows over restarts, unless the clock was set back. */
  statusFor(origin: string): Snapshot {
    this.#serial = Math.max(this.#serial + 1, Math.floor(this.#deps.now()) * 1000);
    const considering = this.#considering.get(origin);
    return {
      ...this.#deps.ownStatus(),
      serial: this.#serial,
      ...(considering && { considering: { ...considering } }),
      queue: this.queue,
    };
  }

  #add(origin: string, { cpu, memory, gpu }: Demand, sign: 1 | -1): void {
    const before = this.#considering.get(origin) ?? { cpu: 0, memory: 0, gpu: 0 };
    const now = { cpu: before.cpu + sign * cpu, memory: before.memory + sign * memory, gpu: before.gpu + sign * gpu };
    if (now.cpu === 0 && now.memory === 0 && now.gpu === 0) this.#considering.delete(origin);
    else this.#considering.set(origin, now);
  }
}
