import { createHash } from 'node:crypto';
import type { Snapshot } from '../../model/cluster-snapshot.ts';
import {
  type AttemptKey,
  type Offer,
  type OfferAnswer,
  type PeerCredentials,
  PeerError,
  type Permit,
  type RefusalCode,
  type Report,
  type Target,
  type TargetAttempt,
} from '../../peers/index.ts';
import type { PolledJob, PolledTarget } from './target-poller.ts';

/** The origin, as one member sees it. */
export interface OriginOfMember {
  permit(attempt: AttemptKey): Promise<Permit>;
  report(attempt: AttemptKey, report: Report): Promise<void>;
}

/** How a cluster handles an offer. */
export type Play =
  /** Requests a permit and accepts the job. */
  | 'take'
  /** The same, but its answer is lost. */
  | 'take-unheard'
  /** Does nothing and does not answer. */
  | 'silent'
  /** Requests a permit, but does not accept the job and does not answer. */
  | 'permit-silent'
  | { readonly refuse: RefusalCode; readonly after?: 'permit' };

const ROOMY: Snapshot = {
  nodes: [{ cpu: 64_000, memory: 2 ** 40, gpu: 8 }],
  freeCpu: 64_000,
  nodeCount: 1,
  age: 0,
  roundTrip: 1,
};

/** A cluster whose answers the test chooses. It keeps the jobs that it has accepted, also while its origin is down. */
export class ScriptedTarget implements Target {
  readonly member: string;
  readonly offers: { readonly offer: Offer; readonly as: PeerCredentials }[] = [];
  readonly taken = new Map<string, AttemptKey>();
  readonly stopped: TargetAttempt[] = [];
  /** What it does with the next offers; the last entry is repeated. */
  plays: Play[] = ['take'];
  snapshot: Snapshot = ROOMY;
  /** The room that its answers to offers tell; absent for a member of an earlier version. */
  room: Snapshot | undefined;
  log: readonly string[] = [];
  logFails = false;
  origin: OriginOfMember | undefined;

  constructor(member: string) {
    this.member = member;
  }

  async offer(offer: Offer, as: PeerCredentials): Promise<OfferAnswer> {
    this.offers.push({ offer, as });
    const play = (this.plays.length > 1 ? this.plays.shift() : this.plays[0]) ?? 'take';
    const name = `${offer.job.service}/${offer.job.id}/${offer.epoch}`;
    const attempt = { job: offer.job, epoch: offer.epoch };
    if (typeof play === 'object') {
      if (play.after) await this.origin?.permit(attempt);
      return { kind: 'refused', code: play.refuse, reason: play.refuse, ...(this.room && { room: this.room }) };
    }
    if (play === 'silent') throw away();
    if (!this.taken.has(name)) {
      try {
        await this.origin?.permit(attempt);
      } catch {
        return { kind: 'refused', code: 'fenced', reason: 'fenced' };
      }
    }
    if (play === 'permit-silent') throw away();
    this.taken.set(name, attempt);
    if (play === 'take-unheard') throw away();
    return { kind: 'taken', attempt: `taken-${offer.epoch}`, ...(this.room && { room: this.room }) };
  }

  async stop(attempt: TargetAttempt): Promise<void> {
    this.stopped.push(attempt);
  }

  async *logs(): AsyncGenerator<Uint8Array> {
    for (const line of this.log) yield Buffer.from(line);
    if (this.logFails) throw away();
  }

  async status(): Promise<Snapshot> {
    return this.snapshot;
  }

  /** The last attempt that it has accepted. */
  get last(): AttemptKey {
    const attempt = [...this.taken.values()].at(-1);
    if (!attempt) throw new Error(`${this.member} has taken nothing`);
    return attempt;
  }

  async says(report: Report, attempt = this.last): Promise<void> {
    await this.origin?.report(attempt, report);
  }
}

/** A member that requests no permit and sends no reports: an endpoint, or a Go manager. */
export class QuietTarget extends ScriptedTarget {
  readonly #done: boolean;

  constructor(member: string, done: boolean) {
    super(member);
    this.#done = done;
  }

  override async offer(offer: Offer, as: PeerCredentials): Promise<OfferAnswer> {
    this.offers.push({ offer, as });
    const play = (this.plays.length > 1 ? this.plays.shift() : this.plays[0]) ?? 'take';
    if (typeof play === 'object') return { kind: 'refused', code: play.refuse, reason: play.refuse };
    if (play === 'take' || play === 'take-unheard') this.taken.set(offer.job.id, offer);
    if (play !== 'take') throw away();
    return { kind: 'taken', attempt: offer.job.id, ...(this.#done && { done: true as const }) };
  }
}

/** A Go manager, which the origin polls for the states of its jobs. */
export class FollowedScript extends QuietTarget implements PolledTarget {
  /** By job id. An accepted job without an entry is Pending. */
  readonly states = new Map<string, PolledJob>();
  asked = 0;
  cannotSay = false;

  constructor(member: string) {
    super(member, false);
  }

  async state({ job }: TargetAttempt): Promise<PolledJob | undefined> {
    this.asked++;
    if (this.cannotSay) throw away();
    return this.states.get(job.id) ?? (this.taken.has(job.id) ? { phase: 'Pending' } : undefined);
  }
}

const away = () => new PeerError('unreachable', 'no answer');

export const digestOf = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

export const failure = (finishedAt: number): Report => ({
  state: 'failed',
  finishedAt,
  exitCode: 3,
  reason: 'ScriptFailed',
  message: 'exit code 3',
});
