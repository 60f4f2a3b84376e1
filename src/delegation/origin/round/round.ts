import { OscarError } from '../../../base/oscar-error.ts';
import type { DecisionRecord, JobKey, JobRecord } from '../../../cluster/index.ts';
import { type Placing, placingOf, readableFile, readEvent } from '../../../jobs/index.ts';
import { decisionOf, type MemberId } from '../../policy/index.ts';
import type { Sent, Shipment } from '../../scoreboard/index.ts';
import type { OfferAnswer } from '../../terms.ts';
import { isFollowed } from '../attempt/follow.ts';
import type { HeldAttempts } from '../held.ts';
import { NO_METERS } from '../meters.ts';
import { claimed, placementOf } from '../moves.ts';
import type { OriginDeps } from '../origin.ts';
import { speakerTo } from '../speaker.ts';
import { AtHome } from './at-home.ts';
import { type Answer, type Chosen, chooseMember, ownId, pinOf, refusalsOf } from './candidates.ts';
import type { FullFederations } from './full.ts';
import type { Member, WorkingFederation } from './members.ts';
import { bearerFor, type Offered, offerJob } from './offer.ts';
import { whyHere } from './stays-here.ts';
import { takenWithoutLeave } from './without-leave.ts';

export interface RoundDeps extends OriginDeps {
  readonly held: HeldAttempts;
  readonly full: FullFederations;
  /** Jobs that were decided to run here, until they are in line. */
  readonly settling: Sent;
  /** Whoever comes after takes up what is under way: nothing is decided here any more. */
  readonly stopping: AbortSignal;
  /** A member has it that does not speak: it has to be asked. */
  readonly follow: (record: JobRecord) => void;
}

/** What was known when a round began. */
export interface Wish {
  /** It is in line here, for when there is room. */
  readonly inLine?: boolean;
  /** This member had it and lost it, so it is asked last; or gave it back, so it is not asked. */
  readonly last?: MemberId;
  readonly without?: MemberId;
}

/** How a round ended. `over`: somebody has the job, or nobody needs to. `unsettled`: somebody may have it. */
export type RoundEnd =
  | { readonly kind: 'over' }
  | { readonly kind: 'unsettled' }
  /** Milliseconds until it is tried again; without, it is pinned and tried again soon. */
  | { readonly kind: 'waits'; readonly after?: number };

const OVER: RoundEnd = { kind: 'over' };
const UNSETTLED: RoundEnd = { kind: 'unsettled' };

/** Nobody is asked more often than this, whatever the definition says. */
const SHORTEST_THRESHOLD = 1_000;

/**
 * Offers one job, to one member after the other, until somebody has it or all have refused (design §9). Each step begins
 * with the record as it is by then: it may have begun here, been cancelled, or been given back by who had it.
 */
export class OfferingRound {
  readonly #key: JobKey;
  readonly #deps: RoundDeps;
  readonly #refusals = new Map<MemberId, string>();
  readonly #last: MemberId | undefined;
  readonly #home: AtHome;
  /** The epoch under which a member has said no: it will not run it, whatever leave it got. */
  #refusedEpoch: number | undefined;
  /** Was anybody asked? */
  #asked = false;

  constructor(key: JobKey, { inLine = false, last, without }: Wish, deps: RoundDeps) {
    this.#key = key;
    this.#deps = deps;
    this.#home = new AtHome(key, inLine, deps);
    this.#last = last;
    if (without !== undefined) this.#refusals.set(without, 'it gave the job back');
  }

  /** Is the job in line here, as the round has left it? */
  get inLine(): boolean {
    return this.#home.inLine;
  }

  async run(): Promise<RoundEnd> {
    for (;;) {
      const record = await this.#deps.store.get(this.#key);
      const end = record && !this.#deps.stopping.aborted ? await this.#step(record) : OVER;
      if (end) return end;
    }
  }

  /** Undefined: look again, something has changed. */
  async #step(record: JobRecord): Promise<RoundEnd | undefined> {
    if (record.state !== 'queued' && record.state !== 'offering' && record.state !== 'delegated') return OVER;
    const federation = await this.#deps.federations.of(record.service);
    const current = federation?.service.uid === record.serviceUid ? federation : undefined;
    if (this.#refusedEpoch !== record.epoch && mayBeThere(record, current)) return this.#resume(record, current);
    if (!current) return this.#stay(record, 'its service has no members any more');
    const placing = placingOf(current.service, record);
    if (placing === 'here') return this.#stay(record, 'its service keeps its jobs here');
    return this.#next(record, current, placing);
  }

  /** Somebody was let run it, and it is not known whether they do: the same offer again, until there is an answer. */
  async #resume(record: JobRecord, federation: WorkingFederation | undefined): Promise<RoundEnd | undefined> {
    const placement = placementOf(record);
    const member = federation?.members.find(({ id }) => id === placement?.member);
    const isHeard = record.attempts.some(({ epoch }) => epoch === record.epoch);
    // Who is no member any more cannot be asked: its word, or the end of its lease, will tell.
    if (!federation || !member || isHeard) return OVER;
    const event = await this.#deps.store.event(this.#key);
    const bearer = await bearerFor(member, federation, this.#deps);
    if (!event || typeof bearer === 'string') return UNSETTLED;
    return this.#offer(record, { member, federation, event, bearer }, undefined);
  }

  async #next(record: JobRecord, federation: WorkingFederation, placing: Placing): Promise<RoundEnd | undefined> {
    const { board, full, clock } = this.#deps;
    const pinnedTo = pinOf(federation, record);
    if (pinnedTo !== undefined && !federation.members.some(({ id }) => id === pinnedTo)) {
      const why = `it entered at ${pinnedTo}, which is no member any more`;
      return (await this.#home.fail(record, 'MemberGone', why)) ? OVER : undefined;
    }
    const known = this.#home.inLine && !this.#asked ? full.reasonFor(record, clock.now()) : undefined;
    if (known !== undefined) return this.#wait(record, federation, known);

    board.interested(boardsOf(federation, this.#deps));
    const began = performance.now();
    const question = { record, federation, placing, refusals: this.#refusals, last: this.#last };
    const answer = chooseMember(question, this.#deps);
    this.#meters.decided((performance.now() - began) / 1000);
    const { chosen } = answer;
    if (!chosen) return this.#noneTakes(record, federation, answer, pinnedTo);
    if (chosen.member === 'here') return this.#runHere(record, federation, answer);
    return this.#try(record, federation, answer, { id: chosen.id, member: chosen.member });
  }

  /** Everything that can be known before, then the claim, then the offer. */
  async #try(
    record: JobRecord,
    federation: WorkingFederation,
    answer: Answer,
    { id, member }: { readonly id: MemberId; readonly member: Member },
  ): Promise<RoundEnd | undefined> {
    const { board, store, objects } = this.#deps;
    // At once, before anything is waited for: the next job that is looked at sees it there (F16).
    const shipment = board.send(member.board, record.demand);
    let settled = false;
    try {
      const event = await store.event(this.#key);
      if (!event) return undefined;
      const { file } = readEvent(event);
      const { service } = federation;
      const readable = file && (await readableFile(file, record, service, objects));
      const reason = whyHere(service, readable);
      if (reason !== undefined) return await this.#stay(record, reason);
      const bearer = await bearerFor(member, federation, this.#deps);
      if (typeof bearer === 'string') {
        this.#refusals.set(id, bearer);
        return undefined;
      }
      if (this.#deps.stopping.aborted) return OVER;
      const taken = await this.#claim(record, id, this.#decision(federation, answer, id), member.place);
      if (!taken) return undefined;
      const end = await this.#offer(taken, { member, federation, event, bearer }, shipment);
      settled = true;
      return end;
    } finally {
      if (!settled) shipment.refused();
    }
  }

  /** From here on it does not start on this cluster: whoever begins it there finds that it is not queued any more (F15). */
  async #claim(
    record: JobRecord,
    member: MemberId,
    decision: DecisionRecord,
    place: string,
  ): Promise<JobRecord | undefined> {
    const message = `it is offered to ${member}`;
    const word = { at: this.#deps.clock.now(), reason: 'Offered', message, place };
    const taken = await this.#home.change(record, (job) => claimed(job, member, decision, word));
    if (!taken) return undefined;
    this.#asked = true;
    this.#home.leaveLine();
    return taken;
  }

  async #offer(record: JobRecord, offered: Offered, shipment: Shipment | undefined): Promise<RoundEnd | undefined> {
    const { member } = offered;
    const answer = await offerJob(record, offered, this.#deps);
    if (answer === 'silent') return this.#unanswered(record, offered, shipment);
    if (answer.kind === 'taken') {
      shipment?.arrived();
      return this.#taken(record, member, answer);
    }
    shipment?.refused();
    this.#refusals.set(member.id, answer.reason);
    this.#refusedEpoch = record.epoch;
    return undefined;
  }

  /** Nothing is known of what became of the offer, but whether there was leave to run it. */
  async #unanswered(
    record: JobRecord,
    { member, federation }: Offered,
    shipment: Shipment | undefined,
  ): Promise<RoundEnd | undefined> {
    const now = await this.#deps.store.get(this.#key);
    if (now?.state === 'delegated' && now.epoch === record.epoch) {
      shipment?.arrived();
      return UNSETTLED;
    }
    if (now?.epoch === record.epoch && now.state === 'offering' && isFollowed(member.target)) {
      const sighted = await this.#sighted(record, member, federation);
      if (sighted) shipment?.arrived();
      if (sighted) return sighted;
      this.#refusedEpoch = record.epoch;
    }
    shipment?.refused();
    this.#refusals.set(member.id, 'it did not answer');
    return undefined;
  }

  /** Nothing fences who knows no leave: it is looked for there, and stays there if that cannot be done. */
  async #sighted(record: JobRecord, member: Member, federation: WorkingFederation): Promise<RoundEnd | undefined> {
    if (!isFollowed(member.target)) return undefined;
    try {
      const as = await speakerTo(member, federation, this.#deps);
      const at = { job: this.#key, epoch: record.epoch, service: member.service };
      if (!(await member.target.state(at, as))) return undefined;
    } catch (problem) {
      if (!(problem instanceof OscarError)) this.#deps.report(problem, this.#key);
      return UNSETTLED;
    }
    return this.#taken(record, member, { kind: 'taken', attempt: record.id });
  }

  async #taken(record: JobRecord, member: Member, answer: Extract<OfferAnswer, { kind: 'taken' }>): Promise<RoundEnd> {
    const last = await takenWithoutLeave(record, member, answer, this.#deps);
    if (last) this.#deps.held.note(last);
    if (last?.state === 'delegated') this.#deps.follow(last);
    return OVER;
  }

  async #noneTakes(
    record: JobRecord,
    federation: WorkingFederation,
    answer: Answer,
    pinnedTo: MemberId | undefined,
  ): Promise<RoundEnd | undefined> {
    const reasons = refusalsOf(answer.rankings);
    const message =
      pinnedTo === undefined
        ? `no member could take it: ${reasons}`
        : `it waits for ${pinnedTo}, where it entered: ${reasons}`;
    if (!this.#asked && pinnedTo === undefined) this.#deps.full.note(record, message, this.#deps.clock.now());
    return this.#wait(record, federation, message, answer);
  }

  /** Back in line here, or still there, with the reason; and offered again after a while. */
  async #wait(
    record: JobRecord,
    federation: WorkingFederation,
    message: string,
    answer?: Answer,
  ): Promise<RoundEnd | undefined> {
    const decision = answer && this.#decision(federation, answer, undefined);
    if (!(await this.#home.wait(record, { reason: 'NoMember', message }, decision))) return undefined;
    if (pinOf(federation, record) !== undefined) return { kind: 'waits' };
    this.#home.lineUp(record);
    return { kind: 'waits', after: thresholdOf(federation, this.#deps) };
  }

  async #runHere(record: JobRecord, federation: WorkingFederation, answer: Answer): Promise<RoundEnd | undefined> {
    const end: RoundEnd = { kind: 'waits', after: thresholdOf(federation, this.#deps) };
    // It is in line already, and the decision is written down.
    if (this.#home.inLine && record.state === 'queued') return end;
    // At once, as for members: in line it has its room, or is seen to wait, but the record is written first (F16).
    const settling = this.#deps.settling.add(record.demand);
    try {
      const decision = this.#decision(federation, answer, ownId(federation, this.#deps));
      const word = { reason: 'Waiting', message: 'waits for room' };
      if (!(await this.#home.wait(record, word, decision))) return undefined;
      this.#home.lineUp(record);
      return end;
    } finally {
      settling.refused();
    }
  }

  /** It runs here or not at all: nobody is asked again. */
  async #stay(record: JobRecord, message: string): Promise<RoundEnd | undefined> {
    if (!(await this.#home.wait(record, { reason: 'StaysHere', message }))) return undefined;
    this.#home.lineUp(record);
    return OVER;
  }

  #decision({ service }: WorkingFederation, { rankings }: Answer, chosen: Chosen['id'] | undefined): DecisionRecord {
    return decisionOf(service.definition.federation?.delegation, rankings, chosen, this.#deps.clock.now());
  }

  get #meters() {
    return this.#deps.meters ?? NO_METERS;
  }
}

/** How long a job waits before it is offered again, in milliseconds. */
export function thresholdOf(
  federation: WorkingFederation | undefined,
  { threshold }: Pick<OriginDeps, 'threshold'>,
): number {
  const seconds = federation?.service.definition.federation?.rescheduler_threshold;
  return Math.max(SHORTEST_THRESHOLD, seconds === undefined ? threshold : seconds * 1000);
}

/** Has a member the job, for all that is known? Who asks for no leave may have it before it answers. */
function mayBeThere(record: JobRecord, federation: WorkingFederation | undefined): boolean {
  if (record.state === 'delegated') return true;
  const member = federation?.members.find(({ id }) => id === placementOf(record)?.member);
  return record.state === 'offering' && member !== undefined && isFollowed(member.target);
}

function boardsOf(federation: WorkingFederation, deps: Pick<OriginDeps, 'mint'>) {
  return federation.members
    .filter(({ type, unfit }) => type === 'oscar' && unfit === undefined)
    .map((member) => ({
      place: member.board,
      ask: async () => member.target.status(await speakerTo(member, federation, deps)),
    }));
}
