import {
  OWN_STORE,
  type PlacementMode,
  placementModeFor,
  type ReadableFile,
  readableFile,
  readEvent,
} from '../../jobs/index.ts';
import { OscarError } from '../../lib/oscar-error.ts';
import type { DecisionRecord, JobKey, JobRecord } from '../../model/job/index.ts';
import { isClusterStore, parseProvider, type Service } from '../../model/service/index.ts';
import type { OfferAnswer } from '../../peers/index.ts';
import { decisionOf, type MemberId } from '../policies/index.ts';
import type { InFlightJobs, Shipment } from '../scoreboard/index.ts';
import { isFollowed } from './follow.ts';
import type { HeldAttempts } from './held.ts';
import { LocalFallback } from './local-fallback.ts';
import type { DelegationMember, WorkingFederation } from './members.ts';
import { NO_METERS } from './meters.ts';
import { claimed, placementOf } from './moves.ts';
import {
  bearerFor,
  type Chosen,
  chooseMember,
  type Offered,
  offerJob,
  ownId,
  type PolicyAnswer,
  pinOf,
  refusalsOf,
} from './offer.ts';
import { credentialsFor, type OriginDeps } from './origin.ts';
import type { SaturationCache } from './saturation-cache.ts';
import { takenUnpermitted } from './unpermitted.ts';

export interface OfferLoopDeps extends OriginDeps {
  readonly held: HeldAttempts;
  readonly full: SaturationCache;
  /** Jobs that were decided to run here, until they are in line. */
  readonly settling: InFlightJobs;
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
  /** Who refused it before, for another reason than room, and is not asked again. */
  readonly refusals?: ReadonlyMap<MemberId, string>;
}

/** How a round ended. `over`: somebody has the job, or nobody needs to. `unsettled`: somebody may have it. */
export type OfferLoopEnd =
  | { readonly kind: 'over' }
  /** With the clusters that may know. */
  | { readonly kind: 'unsettled'; readonly boards: readonly string[] }
  | Waits;

interface Waits {
  readonly kind: 'waits';
  /** Milliseconds until it is tried again; without, it is pinned and tried again soon. */
  readonly after?: number;
  /** The clusters that may take it. */
  readonly boards: readonly string[];
  /** Who refused it for another reason than room. */
  readonly refusals: ReadonlyMap<MemberId, string>;
}

const OVER: OfferLoopEnd = { kind: 'over' };

/** Nobody is asked more often than this, whatever the definition says. */
const SHORTEST_THRESHOLD = 1_000;

/**
 * Offers one job, to one member after the other, until somebody has it or all have refused (docs/delegation.md#how).
 * Each step begins with the record as it is by then: it may have begun here, been cancelled, or been given back by who
 * had it.
 */
export class OfferLoop {
  readonly #key: JobKey;
  readonly #deps: OfferLoopDeps;
  readonly #refusals: Map<MemberId, string>;
  /** Those of them that had no room. */
  readonly #full = new Set<MemberId>();
  readonly #decided = Promise.withResolvers<boolean>();
  readonly #last: MemberId | undefined;
  readonly #home: LocalFallback;
  /** The epoch under which a member has said no: it will not run it, whatever leave it got. */
  #refusedEpoch: number | undefined;
  /** Was anybody asked? */
  #asked = false;

  constructor(key: JobKey, { inLine = false, last, without, refusals = new Map() }: Wish, deps: OfferLoopDeps) {
    this.#key = key;
    this.#deps = deps;
    this.#refusals = new Map(refusals);
    this.#home = new LocalFallback(key, inLine, deps);
    this.#last = last;
    if (without !== undefined) this.#refusals.set(without, 'it gave the job back');
  }

  /** Is the job in line here, as the round has left it? */
  get inLine(): boolean {
    return this.#home.inLine;
  }

  /**
   * Resolves as soon as the next job can be looked at: whoever this one is offered to is counted as taken. False when nobody
   * could take it.
   */
  get decided(): Promise<boolean> {
    return this.#decided.promise;
  }

  async run(): Promise<OfferLoopEnd> {
    try {
      for (;;) {
        const record = await this.#deps.store.get(this.#key);
        const end = record && !this.#deps.stopping.aborted ? await this.#step(record) : OVER;
        if (end) {
          this.#decided.resolve(end.kind !== 'waits');
          return end;
        }
      }
    } finally {
      this.#decided.resolve(false);
    }
  }

  /** Undefined: look again, something has changed. */
  async #step(record: JobRecord): Promise<OfferLoopEnd | undefined> {
    if (record.state !== 'queued' && record.state !== 'offering' && record.state !== 'delegated') return OVER;
    const federation = await this.#deps.federations.of(record.service);
    const current = federation?.service.uid === record.serviceUid ? federation : undefined;
    if (this.#refusedEpoch !== record.epoch && mayBeThere(record, current)) return this.#resume(record, current);
    if (!current) return this.#stay(record, 'its service has no members any more');
    const mode = placementModeFor(current.service, record);
    if (mode === 'local') return this.#stay(record, 'its service keeps its jobs here');
    return this.#next(record, current, mode);
  }

  /** Somebody was let run it, and it is not known whether they do: the same offer again, until there is an answer. */
  async #resume(record: JobRecord, federation: WorkingFederation | undefined): Promise<OfferLoopEnd | undefined> {
    const placement = placementOf(record);
    const member = federation?.members.find(({ id }) => id === placement?.member);
    const isHeard = record.attempts.some(({ epoch }) => epoch === record.epoch);
    // Who is no member any more cannot be asked: its word, or the end of its lease, will tell.
    if (!federation || !member || isHeard) return OVER;
    const event = await this.#deps.store.event(this.#key);
    const bearer = await bearerFor(member, federation, this.#deps);
    if (!event || typeof bearer === 'string') return unsettledAt(member);
    return this.#offer(record, { member, federation, event, bearer }, undefined);
  }

  async #next(
    record: JobRecord,
    federation: WorkingFederation,
    mode: PlacementMode,
  ): Promise<OfferLoopEnd | undefined> {
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
    const question = { record, federation, mode, refusals: this.#refusals, last: this.#last };
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
    answer: PolicyAnswer,
    { id, member }: { readonly id: MemberId; readonly member: DelegationMember },
  ): Promise<OfferLoopEnd | undefined> {
    const { board, store, objects } = this.#deps;
    // At once, before anything is waited for: the next job that is looked at sees it there (F16).
    const shipment = board.send(member.board, record.demand);
    this.#decided.resolve(true);
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
      this.#deps.held.carries(taken, shipment);
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

  async #offer(record: JobRecord, offered: Offered, shipment: Shipment | undefined): Promise<OfferLoopEnd | undefined> {
    const { member } = offered;
    const answer = await offerJob(record, offered, this.#deps);
    if (answer === 'silent') return this.#unanswered(record, offered, shipment);
    if (answer.kind === 'taken') {
      shipment?.arrived();
      return this.#taken(record, member, answer);
    }
    shipment?.refused();
    if (answer.code === 'no-room') {
      this.#deps.board.noRoom(member.board, member.id, record.demand, answer.reason);
      this.#full.add(member.id);
    }
    this.#refusals.set(member.id, answer.reason);
    this.#refusedEpoch = record.epoch;
    return undefined;
  }

  /** Nothing is known of what became of the offer, but whether there was leave to run it. */
  async #unanswered(
    record: JobRecord,
    { member, federation }: Offered,
    shipment: Shipment | undefined,
  ): Promise<OfferLoopEnd | undefined> {
    const now = await this.#deps.store.get(this.#key);
    if (now?.state === 'delegated' && now.epoch === record.epoch) {
      shipment?.arrived();
      return unsettledAt(member);
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
  async #sighted(
    record: JobRecord,
    member: DelegationMember,
    federation: WorkingFederation,
  ): Promise<OfferLoopEnd | undefined> {
    if (!isFollowed(member.target)) return undefined;
    try {
      const as = await credentialsFor(member, federation, this.#deps);
      const at = { job: this.#key, epoch: record.epoch, service: member.service };
      if (!(await member.target.state(at, as))) return undefined;
    } catch (problem) {
      if (!(problem instanceof OscarError)) this.#deps.report(problem, this.#key);
      return unsettledAt(member);
    }
    return this.#taken(record, member, { kind: 'taken', attempt: record.id });
  }

  async #taken(
    record: JobRecord,
    member: DelegationMember,
    answer: Extract<OfferAnswer, { kind: 'taken' }>,
  ): Promise<OfferLoopEnd> {
    const last = await takenUnpermitted(record, member, answer, this.#deps);
    if (last) this.#deps.held.note(last);
    if (last?.state === 'delegated') this.#deps.follow(last);
    return OVER;
  }

  async #noneTakes(
    record: JobRecord,
    federation: WorkingFederation,
    answer: PolicyAnswer,
    pinnedTo: MemberId | undefined,
  ): Promise<OfferLoopEnd | undefined> {
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
    answer?: PolicyAnswer,
  ): Promise<OfferLoopEnd | undefined> {
    const decision = answer && this.#decision(federation, answer, undefined);
    if (!(await this.#home.wait(record, { reason: 'NoMember', message }, decision))) return undefined;
    if (pinOf(federation, record) === undefined) this.#home.lineUp(record);
    return this.#waits(record, federation);
  }

  #waits(record: JobRecord, federation: WorkingFederation): Waits {
    const pinnedTo = pinOf(federation, record);
    const members = federation.members.filter(({ id }) => pinnedTo === undefined || id === pinnedTo);
    return {
      kind: 'waits',
      ...(pinnedTo === undefined && { after: thresholdOf(federation, this.#deps) }),
      boards: members.map(({ board }) => board),
      refusals: new Map([...this.#refusals].filter(([member]) => !this.#full.has(member))),
    };
  }

  async #runHere(
    record: JobRecord,
    federation: WorkingFederation,
    answer: PolicyAnswer,
  ): Promise<OfferLoopEnd | undefined> {
    const end = this.#waits(record, federation);
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
  async #stay(record: JobRecord, message: string): Promise<OfferLoopEnd | undefined> {
    if (!(await this.#home.wait(record, { reason: 'StaysHere', message }))) return undefined;
    this.#home.lineUp(record);
    return OVER;
  }

  #decision(
    { service }: WorkingFederation,
    { rankings }: PolicyAnswer,
    chosen: Chosen['id'] | undefined,
  ): DecisionRecord {
    return decisionOf(service.definition.federation?.delegation, rankings, chosen, this.#deps.clock.now());
  }

  get #meters() {
    return this.#deps.meters ?? NO_METERS;
  }
}

const unsettledAt = ({ board }: DelegationMember): OfferLoopEnd => ({ kind: 'unsettled', boards: [board] });

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

function boardsOf(federation: WorkingFederation, deps: Pick<OriginDeps, 'getOwnerToken'>) {
  return federation.members
    .filter(({ type, unfit }) => type === 'oscar' && unfit === undefined)
    .map((member) => ({
      place: member.board,
      ask: async () => member.target.status(await credentialsFor(member, federation, deps)),
    }));
}

/**
 * Why a job is not given to another cluster, as a sentence; undefined when it may be. Keys of providers never leave the
 * manager that holds them (docs/delegation.md#when), so whatever needs one runs here: a file that lies elsewhere, or a
 * script that gets its input itself.
 */
export function whyHere(
  { definition }: Pick<Service, 'definition'>,
  file: ReadableFile | undefined,
): string | undefined {
  if (definition.file_stage_in) {
    const foreign = definition.input
      .map(({ storage_provider }) => storage_provider)
      .find((id) => !isClusterStore(parseProvider(id)));
    return foreign === undefined ? undefined : keptHere(`its script gets its input from ${foreign}`);
  }
  return file === undefined || file.store === OWN_STORE ? undefined : keptHere(`its input is at ${file.store}`);
}

const keptHere = (because: string) => `it runs on this cluster alone: ${because}, and the keys for that stay here`;
