import { jobKeyText } from '../../jobs/index.ts';
import type { JobKey, JobRecord } from '../../model/job/index.ts';
import type { InFlightJob } from '../scoreboard/index.ts';

/** An attempt that a member was asked to run and that has not ended, as far as this manager has seen. */
export interface RemoteAttempt {
  readonly key: JobKey;
  readonly serviceUid: string;
  readonly member: string;
  readonly epoch: number;
  /** When the member last said something about it. Absent before it was let run it. */
  readonly heardAt?: number;
  /** The room that it takes there, as the scoreboard counts it. Absent where a manager before this one sent it. */
  readonly inFlight?: InFlightJob;
}

/**
 * Which attempts members hold. It only saves looking through all jobs: what counts is in the records, and whatever is done
 * because of it is decided there again.
 */
export class RemoteAttempts {
  readonly #attempts = new Map<string, RemoteAttempt>();

  /** Takes a record as it was just written. */
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

  /** The room that the current attempt takes at its member. Does nothing if the attempt is over. */
  setInFlight({ epoch, ...key }: JobKey & { readonly epoch: number }, inFlight: InFlightJob): void {
    const attempt = this.get(key);
    if (attempt?.epoch === epoch) this.#attempts.set(jobKeyText(key), { ...attempt, inFlight });
  }

  /**
   * Takes a record that says what the member said of its attempt, or that somebody else wrote for it. If the attempt is over,
   * its room there is free again.
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

  /** Those that members were let run. */
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
