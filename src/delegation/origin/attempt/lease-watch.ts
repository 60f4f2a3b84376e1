import type { JobRecord } from '../../../cluster/index.ts';
import { changeJob } from '../../../jobs/index.ts';
import type { HeldAttempt, HeldAttempts } from '../held.ts';
import { NO_METERS } from '../meters.ts';
import { givenBack, placementOf } from '../moves.ts';
import type { OriginDeps } from '../origin.ts';
import { expired } from './lease.ts';

export interface LeaseWatchDeps
  extends Pick<OriginDeps, 'store' | 'lease' | 'clock' | 'here' | 'meters' | 'report' | 'federations'> {
  readonly held: HeldAttempts;
  /** The job waits here again; that member had it. */
  readonly back: (record: JobRecord, member: string) => void;
}

/** How often leases are looked at, at most; with short leases more often. */
const LOOK_EVERY_MS = 5_000;

/** Takes jobs back from members that have fallen silent. */
export class LeaseWatch {
  readonly #deps: LeaseWatchDeps;
  #undo: (() => void) | undefined;
  /** Nobody could be heard before this manager began. */
  #since = 0;
  #stopped = false;

  constructor(deps: LeaseWatchDeps) {
    this.#deps = deps;
  }

  start(): void {
    this.#since = this.#deps.clock.now();
    this.#next();
  }

  stop(): void {
    this.#stopped = true;
    this.#undo?.();
  }

  #next(): void {
    if (this.#stopped) return;
    const { clock, lease } = this.#deps;
    const every = Math.min(LOOK_EVERY_MS, Math.max(1, lease.lease / 4));
    this.#undo = clock.at(clock.now() + every, () => void this.look().finally(() => this.#next()));
  }

  /** Looks once. */
  async look(): Promise<void> {
    const { held, clock, lease } = this.#deps;
    const speaking = await this.#speaking(held.delegated());
    const attempts = speaking.map((each) => ({ ...each, heardAt: Math.max(each.heardAt, this.#since) }));
    await Promise.all(expired(attempts, clock.now(), lease).map((each) => this.#takeBack(each)));
  }

  /** Those who never speak of a job are not silent. */
  async #speaking<A extends HeldAttempt>(attempts: readonly A[]): Promise<A[]> {
    const services = new Set(attempts.map(({ key }) => key.service));
    const dumb = new Set<string>();
    for (const service of services) {
      const federation = await this.#deps.federations.of(service).catch(() => undefined);
      for (const { id, speaks } of federation?.members ?? []) if (!speaks) dumb.add(`${service} ${id}`);
    }
    return attempts.filter(({ key, member }) => !dumb.has(`${key.service} ${member}`));
  }

  async #takeBack({ key, member, epoch, heardAt }: HeldAttempt & { readonly heardAt: number }): Promise<void> {
    const { store, clock, here, held, meters = NO_METERS, report, back } = this.#deps;
    const at = clock.now();
    const message = `${member} has not been heard of for ${Math.round((at - heardAt) / 1000)} s`;
    const word = { at, reason: 'LeaseExpired', message, place: here.clusterId };
    try {
      const record = await changeJob(key, store, (job) => {
        const placement = placementOf(job);
        const isSilent = job.state === 'delegated' && placement?.epoch === epoch && (placement.heardAt ?? 0) <= heardAt;
        return isSilent ? givenBack(job, word) : undefined;
      });
      if (!record) return;
      held.note(record);
      meters.leaseExpired();
      back(record, member);
    } catch (problem) {
      report(problem, key);
    }
  }
}
