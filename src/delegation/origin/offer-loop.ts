import {
  changeJob,
  OWN_STORE,
  type PlacementMode,
  placementModeFor,
  type ReadableFile,
  readableFile,
  readEvent,
  toTraceparent,
} from '../../jobs/index.ts';
import { OscarError } from '../../lib/oscar-error.ts';
import type { Secret } from '../../lib/secret.ts';
import {
  advance,
  type DecisionRecord,
  type Demand,
  type JobKey,
  type JobProgress,
  type JobRecord,
} from '../../model/job/index.ts';
import { CLUSTER_ADMIN, isClusterStore, parseProvider, policyNamed, type Service } from '../../model/service/index.ts';
import type { Offer, OfferAnswer } from '../../peers/index.ts';
import { type MemberId, toDecisionRecord } from '../policies/index.ts';
import type { InFlightJob, InFlightJobs, MonitoredCluster } from '../scoreboard/index.ts';
import {
  type Chosen,
  chooseMember,
  type MemberChoice,
  ownId,
  pinnedMember,
  summarizeRefusals,
} from './choose-member.ts';
import type { DelegatingFederation, DelegationMember } from './federation-cache.ts';
import { LocalFallback } from './local-fallback.ts';
import { credentialsFor, NO_METERS, needsOwnerToken, type OriginDeps } from './origin.ts';
import type { RemoteAttempts } from './remote-attempts.ts';
import { isPolled } from './target-poller.ts';
import { currentPlacement, toOffering } from './transitions.ts';
import type { SaturationCache } from './waiting-jobs.ts';

export interface OfferLoopDeps extends OriginDeps {
  readonly attempts: RemoteAttempts;
  readonly saturation: SaturationCache;
  /** Jobs for which the policy chose this cluster, until they are in the local queue. */
  readonly enteringQueue: InFlightJobs;
  /** Aborted when this manager stops leading: the next leader continues, and nothing is decided here any more. */
  readonly stopping: AbortSignal;
  /** Called when a member has the job that sends no reports and must be polled. */
  readonly poll: (record: JobRecord) => void;
}

/** What is known when an offer loop starts. */
export interface OfferOptions {
  /** The job is in the local queue and may start when capacity becomes free. */
  readonly queuedLocally?: boolean;
  /** A member that had the job and lost it is asked last; a member that released it is excluded. */
  readonly lastChoice?: MemberId;
  readonly exclude?: MemberId;
  /** Members that rejected the job for another reason than missing capacity: they are not asked again. */
  readonly refusals?: ReadonlyMap<MemberId, string>;
}

/**
 * How an offer loop ended. `over`: a member has the job, or no member needs to. `unsettled`: a member may have the job.
 */
export type OfferLoopResult =
  | { readonly kind: 'over' }
  /** With the endpoints of the clusters that may have the job. */
  | { readonly kind: 'unsettled'; readonly endpoints: readonly string[] }
  | Waits;

interface Waits {
  readonly kind: 'waits';
  /** Milliseconds until the next offer loop. Absent if the job is pinned to a member: it is tried again soon. */
  readonly after?: number;
  /** The endpoints of the clusters that may accept the job. */
  readonly endpoints: readonly string[];
  /** Members that rejected the job for another reason than missing capacity. */
  readonly refusals: ReadonlyMap<MemberId, string>;
}

const OVER: OfferLoopResult = { kind: 'over' };

/** The shortest pause between offer loops of a job, whatever the definition says. */
const SHORTEST_THRESHOLD = 1_000;

/**
 * Offers one job to one member after the other, until a member has accepted it or all have rejected it
 * (docs/delegation.md#how). Each step reads the record again: meanwhile the job may have started here, or been
 * cancelled, or been released by a member.
 */
export class OfferLoop {
  readonly #key: JobKey;
  readonly #deps: OfferLoopDeps;
  readonly #refusals: Map<MemberId, string>;
  /** The members that rejected the job because they had no free capacity. */
  readonly #full = new Set<MemberId>();
  readonly #decided = Promise.withResolvers<boolean>();
  readonly #last: MemberId | undefined;
  readonly #home: LocalFallback;
  /** The epoch that a member has rejected: it will not run that attempt, even if it got a permit. */
  #refusedEpoch: number | undefined;
  /** Was the job offered to any member? */
  #asked = false;

  constructor(
    key: JobKey,
    { queuedLocally = false, lastChoice, exclude, refusals = new Map() }: OfferOptions,
    deps: OfferLoopDeps,
  ) {
    this.#key = key;
    this.#deps = deps;
    this.#refusals = new Map(refusals);
    this.#home = new LocalFallback(key, queuedLocally, deps);
    this.#last = lastChoice;
    if (exclude !== undefined) this.#refusals.set(exclude, 'it released the job');
  }

  /** Is the job in the local queue, now that the loop has ended? */
  get queuedLocally(): boolean {
    return this.#home.isQueued;
  }

  /**
   * Resolves as soon as the next job can be considered: the capacity that this job needs is already counted. Resolves
   * to false if no member could accept the job.
   */
  get decided(): Promise<boolean> {
    return this.#decided.promise;
  }

  async run(): Promise<OfferLoopResult> {
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

  /** Undefined: the record has changed, so repeat the step. */
  async #step(record: JobRecord): Promise<OfferLoopResult | undefined> {
    if (record.state !== 'queued' && record.state !== 'offering' && record.state !== 'delegated') return OVER;
    const federation = await this.#deps.federations.get(record.service);
    const current = federation?.service.uid === record.serviceUid ? federation : undefined;
    if (this.#refusedEpoch !== record.epoch && mayBeAtMember(record, current)) return this.#resume(record, current);
    if (!current) return this.#stay(record, 'its service has no members');
    const mode = placementModeFor(current.service, record);
    if (mode === 'local') return this.#stay(record, 'its service keeps its jobs here');
    return this.#next(record, current, mode);
  }

  /**
   * A member got a permit, and it is unknown whether it runs the job: repeats the same offer until the member answers.
   */
  async #resume(record: JobRecord, federation: DelegatingFederation | undefined): Promise<OfferLoopResult | undefined> {
    const placement = currentPlacement(record);
    const member = federation?.members.find(({ id }) => id === placement?.member);
    const isHeard = record.attempts.some(({ epoch }) => epoch === record.epoch);
    // A former member cannot be asked: its report or the end of its lease decides.
    if (!federation || !member || isHeard) return OVER;
    const event = await this.#deps.store.event(this.#key);
    const bearer = await bearerFor(member, federation, this.#deps);
    if (!event || typeof bearer === 'string') return unsettled(member);
    return this.#offer(record, { member, federation, event, bearer }, undefined);
  }

  async #next(
    record: JobRecord,
    federation: DelegatingFederation,
    mode: PlacementMode,
  ): Promise<OfferLoopResult | undefined> {
    const { scoreboard, saturation, clock } = this.#deps;
    const pinnedTo = pinnedMember(federation, record);
    if (pinnedTo !== undefined && !federation.members.some(({ id }) => id === pinnedTo)) {
      const why = `it entered at ${pinnedTo}, which is no longer a member`;
      return (await this.#home.fail(record, 'MemberGone', why)) ? OVER : undefined;
    }
    // A job that may run here too is decided without the members only if others wait here already.
    const isBehindOthers = this.#home.isQueued || (mode === 'any' && this.#deps.ownStatus().waiting > 0);
    const known = isBehindOthers && !this.#asked ? saturation.messageFor(record, clock.now()) : undefined;
    if (known !== undefined) return this.#wait(record, federation, known);

    scoreboard.watch(clustersToWatch(federation, this.#deps));
    const inputBytes = await this.#inputBytes(federation);
    const began = performance.now();
    const question = { record, federation, mode, refusals: this.#refusals, last: this.#last, ...inputBytes };
    const answer = chooseMember(question, this.#deps);
    this.#meters.decided((performance.now() - began) / 1000);
    const { chosen } = answer;
    if (!chosen) return this.#noMemberAccepts(record, federation, answer, pinnedTo);
    if (chosen.member === 'here') return this.#runHere(record, federation, answer);
    const queue = chosen.queue ?? false;
    return this.#try(record, federation, answer, { id: chosen.id, member: chosen.member, queue });
  }

  /** Only `fastest` needs the size of the input. */
  async #inputBytes({ service }: DelegatingFederation): Promise<{ readonly inputBytes?: number }> {
    if (policyNamed(service.definition.federation?.delegation) !== 'fastest') return {};
    const event = await this.#deps.store.event(this.#key);
    return event ? { inputBytes: inputSize(event) } : {};
  }

  /** Does all checks that need no member first, then claims the record, then sends the offer. */
  async #try(
    record: JobRecord,
    federation: DelegatingFederation,
    answer: MemberChoice,
    { id, member, queue }: { readonly id: MemberId; readonly member: DelegationMember; readonly queue: boolean },
  ): Promise<OfferLoopResult | undefined> {
    const { scoreboard, store, objects } = this.#deps;
    // Count the job at once, before the first await, so that the next job's decision includes it (F16).
    // A job that waits there uses no capacity yet.
    const inFlight = scoreboard.addInFlight(member.endpoint, queue ? NO_DEMAND : record.demand);
    using counted = new DisposableStack();
    counted.defer(this.#deps.attempts.addOffer(id));
    this.#decided.resolve(true);
    let settled = false;
    try {
      const event = await store.event(this.#key);
      if (!event) return undefined;
      const { file } = readEvent(event);
      const { service } = federation;
      const readable = file && (await readableFile(file, record, service, objects));
      const reason = localOnlyReason(service, readable);
      if (reason !== undefined) return await this.#stay(record, reason);
      const bearer = await bearerFor(member, federation, this.#deps);
      if (typeof bearer === 'string') {
        this.#refusals.set(id, bearer);
        return undefined;
      }
      if (this.#deps.stopping.aborted) return OVER;
      const taken = await this.#claim(record, id, this.#decision(federation, answer, id), member.place);
      if (!taken) return undefined;
      this.#deps.attempts.setInFlight(taken, inFlight, queue ? undefined : inputSize(event));
      counted.dispose();
      const end = await this.#offer(taken, { member, federation, event, bearer, queue }, inFlight);
      settled = true;
      return end;
    } finally {
      if (!settled) inFlight.rejected();
    }
  }

  /**
   * After the claim, the job cannot start on this cluster: the scheduler finds that it is not queued any more (F15).
   */
  async #claim(
    record: JobRecord,
    member: MemberId,
    decision: DecisionRecord,
    place: string,
  ): Promise<JobRecord | undefined> {
    const message = `offered to ${member}`;
    const word = { at: this.#deps.clock.now(), reason: 'Offered', message, place };
    const taken = await this.#home.change(record, (job) => toOffering(job, member, decision, word));
    if (!taken) return undefined;
    this.#asked = true;
    this.#home.withdraw();
    return taken;
  }

  async #offer(
    record: JobRecord,
    offered: OfferParts,
    inFlight: InFlightJob | undefined,
  ): Promise<OfferLoopResult | undefined> {
    const { member } = offered;
    const { scoreboard, elapsed = () => performance.now() } = this.#deps;
    const began = elapsed();
    const answer = await offerJob(record, offered, this.#deps);
    if (answer === 'silent') return this.#unanswered(record, offered, inFlight);
    const { room } = answer;
    if (answer.kind === 'taken') {
      inFlight?.accepted(room?.serial);
      scoreboard.noteOffer(member.endpoint, (elapsed() - began) / 1000);
      if (room) scoreboard.noteRoom(member.endpoint, room);
      return this.#accepted(record, member, answer);
    }
    inFlight?.rejected();
    if (room) scoreboard.noteRoom(member.endpoint, room);
    if (answer.code === 'no-room') {
      scoreboard.noteNoRoom(member.endpoint, member.id, record.demand, answer.reason);
      this.#full.add(member.id);
    }
    this.#refusals.set(member.id, answer.reason);
    this.#refusedEpoch = record.epoch;
    return undefined;
  }

  /** The member did not answer. Only the record shows whether it asked for a permit. */
  async #unanswered(
    record: JobRecord,
    { member, federation }: OfferParts,
    inFlight: InFlightJob | undefined,
  ): Promise<OfferLoopResult | undefined> {
    const now = await this.#deps.store.get(this.#key);
    if (now?.state === 'delegated' && now.epoch === record.epoch) {
      inFlight?.accepted();
      return unsettled(member);
    }
    if (now?.epoch === record.epoch && now.state === 'offering' && isPolled(member.target)) {
      const sighted = await this.#findAtGoManager(record, member, federation);
      if (sighted) inFlight?.accepted();
      if (sighted) return sighted;
      this.#refusedEpoch = record.epoch;
    }
    inFlight?.rejected();
    this.#refusals.set(member.id, 'it did not answer');
    return undefined;
  }

  /**
   * A Go manager knows no permits, so nothing fences it: ask whether it has the job. If it cannot be asked, the job
   * stays with it.
   */
  async #findAtGoManager(
    record: JobRecord,
    member: DelegationMember,
    federation: DelegatingFederation,
  ): Promise<OfferLoopResult | undefined> {
    if (!isPolled(member.target)) return undefined;
    try {
      const as = await credentialsFor(member, federation, this.#deps);
      const at = { job: this.#key, epoch: record.epoch, service: member.service };
      if (!(await member.target.state(at, as))) return undefined;
    } catch (problem) {
      if (!(problem instanceof OscarError)) this.#deps.report(problem, this.#key);
      return unsettled(member);
    }
    return this.#accepted(record, member, { kind: 'taken', attempt: record.id });
  }

  async #accepted(
    record: JobRecord,
    member: DelegationMember,
    answer: Extract<OfferAnswer, { kind: 'taken' }>,
  ): Promise<OfferLoopResult> {
    const last = await recordUnpermittedStart(record, member, answer, this.#deps);
    if (last) this.#deps.attempts.note(last);
    if (last?.state === 'delegated') this.#deps.poll(last);
    return OVER;
  }

  async #noMemberAccepts(
    record: JobRecord,
    federation: DelegatingFederation,
    answer: MemberChoice,
    pinnedTo: MemberId | undefined,
  ): Promise<OfferLoopResult | undefined> {
    const reasons = summarizeRefusals(answer.rankings);
    const message =
      pinnedTo === undefined
        ? `no member could accept it: ${reasons}`
        : `waits for ${pinnedTo}, where it entered: ${reasons}`;
    if (!this.#asked && pinnedTo === undefined) this.#deps.saturation.note(record, message, this.#deps.clock.now());
    return this.#wait(record, federation, message, answer);
  }

  /** Puts the job back into the local queue, or leaves it there, with the reason; it is offered again later. */
  async #wait(
    record: JobRecord,
    federation: DelegatingFederation,
    message: string,
    answer?: MemberChoice,
  ): Promise<OfferLoopResult | undefined> {
    const decision = answer && this.#decision(federation, answer, undefined);
    if (!(await this.#home.wait(record, { reason: 'NoMember', message }, decision))) return undefined;
    if (pinnedMember(federation, record) === undefined) this.#home.enqueue(record);
    return this.#waits(record, federation);
  }

  #waits(record: JobRecord, federation: DelegatingFederation): Waits {
    const pinnedTo = pinnedMember(federation, record);
    const pinned = federation.members.filter(({ id }) => id === pinnedTo);
    return {
      kind: 'waits',
      ...(pinnedTo === undefined && { after: reofferDelay(federation, this.#deps) }),
      endpoints: pinnedTo === undefined ? listEndpoints(federation) : pinned.map(({ endpoint }) => endpoint),
      refusals: new Map([...this.#refusals].filter(([member]) => !this.#full.has(member))),
    };
  }

  async #runHere(
    record: JobRecord,
    federation: DelegatingFederation,
    answer: MemberChoice,
  ): Promise<OfferLoopResult | undefined> {
    const end = this.#waits(record, federation);
    // The job is in the local queue already, and the decision is in the record.
    if (this.#home.isQueued && record.state === 'queued') return end;
    // Count the job at once, as for members: the record is written before the queue reserves capacity for the job
    // (F16).
    const settling = this.#deps.enteringQueue.add(record.demand);
    try {
      const decision = this.#decision(federation, answer, ownId(federation, this.#deps));
      const word = { reason: 'Waiting', message: 'waits for room' };
      if (!(await this.#home.wait(record, word, decision))) return undefined;
      this.#home.enqueue(record);
      return end;
    } finally {
      settling.rejected();
    }
  }

  /** The job must run on this cluster: no member is asked again. */
  async #stay(record: JobRecord, message: string): Promise<OfferLoopResult | undefined> {
    if (!(await this.#home.wait(record, { reason: 'StaysHere', message }))) return undefined;
    this.#home.enqueue(record);
    return OVER;
  }

  #decision(
    { service }: DelegatingFederation,
    { rankings }: MemberChoice,
    chosen: Chosen['id'] | undefined,
  ): DecisionRecord {
    return toDecisionRecord(service.definition.federation?.delegation, rankings, chosen, this.#deps.clock.now());
  }

  get #meters() {
    return this.#deps.meters ?? NO_METERS;
  }
}

/** The size of the file that a storage event reports, or of the event itself, which is the input then. */
export function inputSize(event: Uint8Array): number {
  if (!readEvent(event).file) return event.length;
  const size = /"size"\s*:\s*(\d{1,15})\b/.exec(Buffer.from(event).toString('utf8'))?.[1];
  return size === undefined ? event.length : Number(size);
}

const unsettled = ({ endpoint }: DelegationMember): OfferLoopResult => ({ kind: 'unsettled', endpoints: [endpoint] });

/** How long a job waits before it is offered again, in milliseconds. */
export function reofferDelay(
  federation: DelegatingFederation | undefined,
  { reofferAfter }: Pick<OriginDeps, 'reofferAfter'>,
): number {
  const seconds = federation?.service.definition.federation?.rescheduler_threshold;
  return Math.max(SHORTEST_THRESHOLD, seconds === undefined ? reofferAfter : seconds * 1000);
}

/** May a member have the job? A Go manager, which asks for no permit, may have started the job before it answers. */
function mayBeAtMember(record: JobRecord, federation: DelegatingFederation | undefined): boolean {
  if (record.state === 'delegated') return true;
  const member = federation?.members.find(({ id }) => id === currentPlacement(record)?.member);
  return record.state === 'offering' && member !== undefined && isPolled(member.target);
}

/** The clusters of each federation's members, with how each is asked for its free capacity. A federation is immutable, and a new object when it has changed. */
const clustersOf = new WeakMap<DelegatingFederation, readonly MonitoredCluster[]>();
const endpointsOf = new WeakMap<DelegatingFederation, readonly string[]>();

export function clustersToWatch(
  federation: DelegatingFederation,
  deps: Pick<OriginDeps, 'getOwnerToken'>,
): readonly MonitoredCluster[] {
  const known = clustersOf.get(federation);
  if (known) return known;
  const clusters = federation.members
    .filter(({ type, ineligible }) => type === 'oscar' && ineligible === undefined)
    .map((member) => ({
      endpoint: member.endpoint,
      fetchSnapshot: async () => member.target.status(await credentialsFor(member, federation, deps)),
    }));
  clustersOf.set(federation, clusters);
  return clusters;
}

function listEndpoints(federation: DelegatingFederation): readonly string[] {
  const known = endpointsOf.get(federation) ?? federation.members.map(({ endpoint }) => endpoint);
  endpointsOf.set(federation, known);
  return known;
}

/**
 * Why a job may not be delegated, as a sentence; undefined if it may. Keys of providers never leave the manager that
 * holds them (docs/delegation.md#when), so a job that needs one runs here: its input is at a provider, or its script
 * fetches the input from one.
 */
export function localOnlyReason(
  { definition }: Pick<Service, 'definition'>,
  file: ReadableFile | undefined,
): string | undefined {
  if (definition.file_stage_in) {
    const foreign = definition.input
      .map(({ storage_provider }) => storage_provider)
      .find((id) => !isClusterStore(parseProvider(id)));
    return foreign === undefined ? undefined : localOnly(`its script reads its input from ${foreign}`);
  }
  return file === undefined || file.store === OWN_STORE ? undefined : localOnly(`its input is at ${file.store}`);
}

const localOnly = (because: string) => `it must run on this cluster: ${because}, and the keys for that stay here`;

/** What an offer contains besides the record. */
interface OfferParts {
  readonly member: DelegationMember;
  readonly federation: DelegatingFederation;
  readonly event: Uint8Array;
  readonly bearer: Secret | undefined;
  /** The job may wait at the member, although another one could run it. */
  readonly queue?: boolean;
}

const NO_DEMAND: Demand = { cpu: 0, memory: 0, gpu: 0 };

type Deps = Pick<OriginDeps, 'self' | 'meters' | 'report'>;

/** Asks a member to run the current attempt of a job. `silent`: there was no answer, so the result is unknown. */
async function offerJob(record: JobRecord, offered: OfferParts, deps: Deps): Promise<OfferAnswer | 'silent'> {
  const { meters = NO_METERS, report } = deps;
  const { member, bearer } = offered;
  const began = performance.now();
  const seconds = () => (performance.now() - began) / 1000;
  try {
    const answer = await member.target.offer(toOffer(record, offered, deps), {
      ...member.credentials,
      ...(bearer && { bearer }),
    });
    meters.offered(answer.kind === 'taken' ? 'taken' : answer.code, seconds());
    return answer;
  } catch (problem) {
    meters.offered('silent', seconds());
    if (!(problem instanceof OscarError)) report(problem, record);
    return 'silent';
  }
}

function toOffer(record: JobRecord, { member, federation, event, queue }: OfferParts, { self }: Deps): Offer {
  const job = { service: record.service, id: record.id };
  return {
    job,
    epoch: record.epoch,
    service: member.service,
    from: self.clusterId,
    event,
    trigger: record.trigger,
    pinned: pinnedMember(federation, record) !== undefined,
    ...(queue && { queue }),
    trace: toTraceparent(job),
  };
}

/**
 * An access token of the owner for a member on a Go manager, which knows no member keys. Undefined if the member needs
 * none; a string, the reason, if none could be obtained.
 */
async function bearerFor(
  member: DelegationMember,
  { service }: DelegatingFederation,
  { getOwnerToken, report }: Pick<OriginDeps, 'getOwnerToken' | 'report'>,
): Promise<Secret | string | undefined> {
  if (!getOwnerToken || !needsOwnerToken(member) || service.owner === CLUSTER_ADMIN) return undefined;
  try {
    return await getOwnerToken(service, member.place);
  } catch (problem) {
    if (problem instanceof OscarError) return problem.message;
    report(problem, { service: service.definition.name, id: '' });
    return 'could not obtain an access token of the owner';
  }
}

type Taken = Extract<OfferAnswer, { kind: 'taken' }>;

/**
 * A member has accepted a job without asking for a permit: an endpoint, which has done the work when it answers, or a
 * Go manager. Resolves to the new record; undefined if the record has changed meanwhile, for example by a permit.
 */
async function recordUnpermittedStart(
  { service, id, epoch }: JobRecord,
  { id: member, place }: DelegationMember,
  { attempt, done }: Taken,
  { store, clock, scheduler }: Pick<OriginDeps, 'store' | 'clock' | 'scheduler'>,
): Promise<JobRecord | undefined> {
  const at = clock.now();
  const taken = { state: 'delegated', at, reason: 'Taken', message: `accepted by ${member}`, place } as const;
  const ended = [
    { state: 'committing', at, reason: 'Answered', message: `answered by ${member}`, place },
    { state: 'succeeded', at, reason: 'Completed', message: `done by ${member}, which keeps the results`, place },
  ] as const;
  const changed = await changeJob({ service, id }, store, (job) => {
    if (job.state !== 'offering' || job.epoch !== epoch || !job.placement) return undefined;
    const course = done ? { startedAt: at, finishedAt: at } : {};
    const attempts = [...job.attempts, { name: attempt, epoch, place, ...course }];
    const placement = { ...job.placement, permittedAt: at, heardAt: at };
    const steps = done ? [taken, ...ended] : [taken];
    return steps.reduce<Partial<JobProgress>>(
      (change, step) => ({ ...change, ...advance({ ...job, ...change }, step, { attempts, placement, ...course }) }),
      {},
    );
  });
  if (changed?.state === 'succeeded') scheduler.notify(changed);
  return changed;
}
