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
  /** The member has reported that the script runs. */
  readonly isRunning: boolean;
  /**
   * The capacity that it uses at the member, as the scoreboard counts it. Absent if an earlier manager sent the offer.
   */
  readonly inFlight?: InFlightJob;
  /** The size of its input, if the script starts as soon as the input has arrived. */
  readonly inputBytes?: number;
}

/** How many attempts of a federation a member has, by whether their scripts run. */
export interface MemberLoad {
  readonly running: number;
  readonly waiting: number;
}

const NO_LOAD: MemberLoad = { running: 0, waiting: 0 };

/**
 * The attempts that members have. An index that avoids reading all jobs: every action based on it checks the record
 * again.
 */
export class RemoteAttempts {
  readonly #attempts = new Map<string, RemoteAttempt>();
  readonly #loads = new Map<string, MemberLoad>();
  #running = 0;

  /** Updates the index from a record that was just written. */
  note(record: JobRecord): void {
    const { service, id, state, placement, epoch, serviceUid, attempts } = record;
    const name = jobKeyText(record);
    if ((state !== 'offering' && state !== 'delegated') || placement?.epoch !== epoch) return this.#delete(name);
    const { member, heardAt } = placement;
    const heard = state === 'delegated' && heardAt !== undefined;
    const before = this.#attempts.get(name);
    const inFlight = before?.epoch === epoch ? before.inFlight : undefined;
    const inputBytes = before?.epoch === epoch ? before.inputBytes : undefined;
    const more = {
      ...(heard && { heardAt }),
      ...(inFlight && { inFlight }),
      ...(inputBytes !== undefined && { inputBytes }),
    };
    const isRunning = attempts.at(-1)?.epoch === epoch && attempts.at(-1)?.startedAt !== undefined;
    this.#set(name, { key: { service, id }, serviceUid, member, epoch, isRunning, ...more });
  }

  /**
   * Counts a job that is about to be offered to a member as waiting there, until the returned function is called: its
   * record is written a moment later, and the next decision must not miss it.
   */
  addOffer(member: string): () => void {
    this.#count({ member, isRunning: false }, 1);
    return () => this.#count({ member, isRunning: false }, -1);
  }

  /** Attempts whose scripts run, at all members together. */
  get running(): number {
    return this.#running;
  }

  /** The attempts of a member that this manager knows of. */
  loadAt(member: string): MemberLoad {
    return this.#loads.get(member) ?? NO_LOAD;
  }

  /** Remembers the capacity that the current attempt uses at its member. Does nothing if the attempt is over. */
  setInFlight(
    { epoch, ...key }: JobKey & { readonly epoch: number },
    inFlight: InFlightJob,
    inputBytes?: number,
  ): void {
    const attempt = this.get(key);
    if (attempt?.epoch === epoch)
      this.#set(jobKeyText(key), { ...attempt, inFlight, ...(inputBytes !== undefined && { inputBytes }) });
  }

  /**
   * Updates the index from a record that a report, or another manager, has changed. If the attempt is over, its
   * capacity at the member is free again. `serial`: of the member's room in the report.
   */
  noteReport(record: JobRecord, serial?: number): void {
    const before = this.get(record);
    this.note(record);
    if (before?.epoch === record.epoch && !this.get(record)) before.inFlight?.ended(serial);
  }

  get(key: JobKey): RemoteAttempt | undefined {
    return this.#attempts.get(jobKeyText(key));
  }

  forget(key: JobKey): void {
    this.#delete(jobKeyText(key));
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

  #set(name: string, attempt: RemoteAttempt): void {
    this.#delete(name);
    this.#attempts.set(name, attempt);
    this.#count(attempt, 1);
  }

  #delete(name: string): void {
    const attempt = this.#attempts.get(name);
    if (!attempt) return;
    this.#attempts.delete(name);
    this.#count(attempt, -1);
  }

  #count({ member, isRunning }: Pick<RemoteAttempt, 'member' | 'isRunning'>, change: 1 | -1): void {
    const { running, waiting } = this.loadAt(member);
    if (isRunning) this.#running += change;
    const load = isRunning ? { running: running + change, waiting } : { running, waiting: waiting + change };
    if (load.running + load.waiting > 0) this.#loads.set(member, load);
    else this.#loads.delete(member);
  }
}
