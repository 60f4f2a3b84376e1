import { changeJob } from '../../jobs/index.ts';
import type { JobRecord } from '../../model/job/index.ts';
import { expiredLeases, type Leased } from './lease.ts';
import { NO_METERS, type OriginDeps, placeInRecord } from './origin.ts';
import type { RemoteAttempt, RemoteAttempts } from './remote-attempts.ts';
import { currentPlacement, toQueued } from './transitions.ts';

export interface LeaseWatchDeps
  extends Pick<OriginDeps, 'store' | 'lease' | 'clock' | 'self' | 'meters' | 'report' | 'federations'> {
  readonly attempts: RemoteAttempts;
  /** Called after the job went back into the queue, with the member that had it. */
  readonly onExpired: (record: JobRecord, member: string) => void;
}

interface Standing<A> {
  readonly speaking: (A & Pick<Leased, 'cluster'>)[];
  readonly gone: A[];
}

/** The longest interval between two checks; short leases are checked more often. */
const LOOK_EVERY_MS = 5_000;

/** Takes jobs back from members that have fallen silent. */
export class LeaseWatch {
  readonly #deps: LeaseWatchDeps;
  #undo: (() => void) | undefined;
  /** When this manager started. No report could reach it earlier. */
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
    this.#undo = clock.at(clock.now() + every, () => void this.check().finally(() => this.#next()));
  }

  /** Checks all leases once. */
  async check(): Promise<void> {
    const { attempts, clock, lease, meters = NO_METERS } = this.#deps;
    const { speaking, gone } = await this.#standing(attempts.delegated());
    const leased = speaking.map((each) => ({ ...each, heardAt: Math.max(each.heardAt, this.#since) }));
    const now = clock.now();
    await Promise.all([
      ...gone.map((each) =>
        this.#takeBack(each, { reason: 'MemberGone', message: `${each.member} is no longer a member` }),
      ),
      ...expiredLeases(leased, now, lease).map(async (each) => {
        const message = `no report from ${each.member} for ${Math.round((now - each.heardAt) / 1000)} s`;
        if (await this.#takeBack(each, { reason: 'LeaseExpired', message })) meters.leaseExpired();
      }),
    ]);
  }

  /**
   * Members that send no reports have no leases. A former member has no key any more and cannot report, so its jobs are
   * taken back at once.
   */
  async #standing<A extends RemoteAttempt>(attempts: readonly A[]): Promise<Standing<A>> {
    const standing: Standing<A> = { speaking: [], gone: [] };
    for (const [service, held] of Map.groupBy(attempts, ({ key }) => key.service)) {
      const federation = await this.#deps.federations.get(service).catch(() => undefined);
      const members = new Map(federation?.members.map((member) => [member.id, member]));
      for (const attempt of held) {
        const member = members.get(attempt.member);
        if (federation?.service.uid === attempt.serviceUid && !member) standing.gone.push(attempt);
        else if (member?.sendsReports !== false) {
          standing.speaking.push({ ...attempt, cluster: member?.endpoint ?? placeInRecord(attempt.member) });
        }
      }
    }
    return standing;
  }

  /** False if the job has ended, or the member has reported, meanwhile. */
  async #takeBack(
    { key, member, epoch, heardAt }: RemoteAttempt & { readonly heardAt: number },
    why: { readonly reason: string; readonly message: string },
  ): Promise<boolean> {
    const { store, clock, self, attempts, report, onExpired } = this.#deps;
    const word = { at: clock.now(), ...why, place: self.clusterId };
    try {
      const record = await changeJob(key, store, (job) => {
        const placement = currentPlacement(job);
        const isSilent = job.state === 'delegated' && placement?.epoch === epoch && (placement.heardAt ?? 0) <= heardAt;
        return isSilent ? toQueued(job, word) : undefined;
      });
      if (!record) {
        await this.#catchUp(key, member, epoch);
        return false;
      }
      attempts.note(record);
      onExpired(record, member);
      return true;
    } catch (problem) {
      report(problem, key);
      return false;
    }
  }

  /**
   * Another writer changed the record. It may be another manager that took the job back and then stopped: then the job
   * waits without an offer loop, so start one.
   */
  async #catchUp(key: RemoteAttempt['key'], member: string, epoch: number): Promise<void> {
    const { store, attempts, onExpired } = this.#deps;
    const record = await store.get(key);
    if (!record) return attempts.forget(key);
    attempts.note(record);
    if (record.state === 'queued' && record.epoch === epoch) onExpired(record, member);
  }
}
