import { jobKeyText } from '../../jobs/index.ts';
import type { JobKey, JobRecord } from '../../model/job/index.ts';
import type { InFlightJob } from '../scoreboard/index.ts';

/** An attempt that was offered to a member and has not ended, as far as this manager knows. */
export interface RemoteAttempt {
  readonly key: JobKey;
  readonly serviceUid: string;
  readonly member: string;
  readonly epoch: number;
  /** When the member last reported. Absent before it got its permit. */
  readonly heardAt?: number;
  /**
   * The capacity that it uses at the member, as the scoreboard counts it. Absent if an earlier manager sent the offer.
   */
  readonly inFlight?: InFlightJob;
}

/**
 * The attempts that members have. An index that avoids reading all jobs: every action based on it checks the record
 * again.
 */
export class RemoteAttempts {
  readonly #attempts = new Map<string, RemoteAttempt>();

  /** Updates the index from a record that was just written. */
  note(record: JobRecord): void {
    const { service, id, state, placement, epoch, serviceUid } = record;
    const name = jobKeyText(record);
    if ((state !== 'offering' && state !== 'delegated') || placement?.epoch !== epoch) {
      this.#attempts.delete(name);
      return;
    }
    const { member, heardAt } = placement;
    const heard = state === 'delegated' && heardAt !== undefined;
    const before = this.#attempts.get(name);
    const inFlight = before?.epoch === epoch ? before.inFlight : undefined;
    const more = { ...(heard && { heardAt }), ...(inFlight && { inFlight }) };
    this.#attempts.set(name, { key: { service, id }, serviceUid, member, epoch, ...more });
  }

  /** Remembers the capacity that the current attempt uses at its member. Does nothing if the attempt is over. */
  setInFlight({ epoch, ...key }: JobKey & { readonly epoch: number }, inFlight: InFlightJob): void {
    const attempt = this.get(key);
    if (attempt?.epoch === epoch) this.#attempts.set(jobKeyText(key), { ...attempt, inFlight });
  }

  /**
   * Updates the index from a record that a report, or another manager, has changed. If the attempt is over, its
   * capacity at the member is free again.
   */
  noteReport(record: JobRecord): void {
    const before = this.get(record);
    this.note(record);
    if (before?.epoch === record.epoch && !this.get(record)) before.inFlight?.ended();
  }

  get(key: JobKey): RemoteAttempt | undefined {
    return this.#attempts.get(jobKeyText(key));
  }

  forget(key: JobKey): void {
    this.#attempts.delete(jobKeyText(key));
  }

  /** The attempts that have a permit. */
  delegated(): (RemoteAttempt & { readonly heardAt: number })[] {
    return [...this.#attempts.values()].flatMap((each) => {
      const { heardAt } = each;
      return heardAt === undefined ? [] : [{ ...each, heardAt }];
    });
  }

  count(serviceUid: string, member: string): number {
    let held = 0;
    for (const each of this.#attempts.values()) if (each.serviceUid === serviceUid && each.member === member) held++;
    return held;
  }
}
