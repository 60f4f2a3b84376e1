import type { JobKey, JobRecord } from '../../cluster/index.ts';
import { roomName } from '../../jobs/index.ts';

/** An attempt that a member was asked to run and that has not ended, as far as this manager has seen. */
export interface HeldAttempt {
  readonly key: JobKey;
  readonly serviceUid: string;
  readonly member: string;
  readonly epoch: number;
  /** When the member last said something about it. Absent before it was let run it. */
  readonly heardAt?: number;
}

/**
 * Which attempts members hold. It only saves looking through all jobs: what counts is in the records, and whatever is done
 * because of it is decided there again.
 */
export class HeldAttempts {
  readonly #attempts = new Map<string, HeldAttempt>();

  /** Takes a record as it was just written. */
  note(record: JobRecord): void {
    const { service, id, state, placement, epoch, serviceUid } = record;
    const name = roomName(record);
    if ((state !== 'offering' && state !== 'delegated') || placement?.epoch !== epoch) {
      this.#attempts.delete(name);
      return;
    }
    const { member, heardAt } = placement;
    const heard = state === 'delegated' && heardAt !== undefined;
    this.#attempts.set(name, { key: { service, id }, serviceUid, member, epoch, ...(heard && { heardAt }) });
  }

  get(key: JobKey): HeldAttempt | undefined {
    return this.#attempts.get(roomName(key));
  }

  forget(key: JobKey): void {
    this.#attempts.delete(roomName(key));
  }

  /** Those that members were let run. */
  delegated(): (HeldAttempt & { readonly heardAt: number })[] {
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
