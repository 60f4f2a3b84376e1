import { type PlacementMode, SUSPENDED_PATIENCE_MS } from '../../jobs/index.ts';
import type { JobRecord } from '../../model/job/index.ts';
import { type Candidate, isNeverUsed, type MemberId, type Ranking, rank } from '../policies/index.ts';
import type { InFlightJobs } from '../scoreboard/index.ts';
import type { DelegatingFederation, DelegationMember } from './federation-cache.ts';
import type { OriginDeps } from './origin.ts';
import type { RemoteAttempts } from './remote-attempts.ts';

/** The input of the choice of a member. */
interface ChoiceInput {
  readonly record: JobRecord;
  readonly federation: DelegatingFederation;
  readonly mode: PlacementMode;
  /** The members that have rejected the job, and why. */
  readonly refusals: ReadonlyMap<MemberId, string>;
  /** The size of the job's input. */
  readonly inputBytes?: number;
  /** This member lost the job before and is asked last. */
  readonly last?: MemberId | undefined;
}

/** All candidates, best first, and the first one to which the job may be offered. */
export interface MemberChoice {
  readonly rankings: readonly Ranking[];
  readonly chosen: Chosen | undefined;
}

export interface Chosen {
  readonly id: MemberId;
  readonly member: DelegationMember | 'here';
  /** No member has room. The job is offered to wait at this one, whose next slot is free before another offer arrives. */
  readonly queue?: true;
}

interface Asking extends Pick<OriginDeps, 'scoreboard' | 'ownStatus' | 'self' | 'random' | 'clock'> {
  /** Jobs for which the policy chose this cluster and that are not in the queue yet: their capacity is not reserved. */
  readonly enteringQueue: Pick<InFlightJobs, 'total'>;
  readonly attempts: Pick<RemoteAttempts, 'loadAt'>;
}

/**
 * Chooses the next target of a job by its policy and what is known now. Synchronous, so that no other decision happens
 * meanwhile.
 */
export function chooseMember(question: ChoiceInput, deps: Asking): MemberChoice {
  const { record, federation, mode, refusals } = question;
  const { delegation, weights } = federation.service.definition.federation ?? {};
  const pinnedTo = pinnedMember(federation, record);
  const members = federation.members.filter(({ id }) => pinnedTo === undefined || id === pinnedTo);
  const candidates = members.map((member) => candidateOf(member, question, deps));
  const self = mode === 'any' && pinnedTo === undefined ? ownCandidate(question, deps) : undefined;

  const why = new Map([
    ...members.flatMap(({ id, endpoint, ineligible, sendsReports }) => {
      // A pinned job waits at its member, whether it has free capacity or not.
      const full = pinnedTo === undefined ? deps.scoreboard.noRoomReason(endpoint, id, record.demand) : undefined;
      const noAnswer = record.trigger === 'run' && !sendsReports ? 'it returns no answers of calls' : undefined;
      const reason = ineligible ?? noAnswer ?? full;
      return reason === undefined ? [] : [[id, reason] as const];
    }),
    ...refusals,
  ]);
  if (self && deps.ownStatus().waiting > 0) why.set(self.member, 'jobs wait here already');
  // Just accepted, it may be let in at any moment (F15).
  const isLong = deps.clock.now() - record.acceptedAt > SUSPENDED_PATIENCE_MS;
  if (self && record.held !== undefined && isLong) why.set(self.member, `it ${record.held}`);

  const all = self ? [self, ...candidates] : candidates;
  const able = all.filter(({ member }) => !why.has(member));
  const ranked: readonly Ranking[] =
    pinnedTo === undefined
      ? rank({ policy: delegation, weights }, able, record.demand, deps.random)
      : able.map((candidate) => ({ candidate }));
  const refused = all.flatMap((candidate): Ranking[] => {
    const refusal = why.get(candidate.member);
    return refusal === undefined ? [] : [{ candidate, refusal }];
  });
  const rankings = [...inOrder(ranked, preferred(question, self?.member), question.last), ...refused];
  const [first] = rankings;
  const chosen = first && first.refusal === undefined ? chosenOf(first.candidate, members) : undefined;
  if (chosen || pinnedTo !== undefined) return { rankings, chosen };
  return { rankings, chosen: chooseQueue(question, members, deps) };
}

/**
 * Jobs may wait at a member only if they are short: if the slot would otherwise be idle for more than this share of a job's
 * duration. With a larger value, slots are idle between short jobs; with a smaller one, long jobs wait at a member while
 * another one gets room.
 */
const WORTH_QUEUEING = 0.05;

/** How often an offer's own duration passes from the end of a script until the next one can start: its report, and an offer. */
const OFFERS_PER_TURNAROUND = 2;

/**
 * A member without room at which the job may wait, because the next job would otherwise arrive long after a slot is free. As
 * many jobs wait at a member as end there during a turnaround, and no more than the member allows.
 */
function chooseQueue(
  { record, refusals }: ChoiceInput,
  members: readonly DelegationMember[],
  { scoreboard, attempts }: Asking,
): Chosen | undefined {
  let best: Chosen | undefined;
  let least = Infinity;
  for (const member of members) {
    const { id, endpoint, sendsReports, ineligible, priority } = member;
    if (!sendsReports || ineligible !== undefined || refusals.has(id) || isNeverUsed(priority)) continue;
    const { running, waiting } = attempts.loadAt(id);
    const duration = scoreboard.durationAt(endpoint, record.service);
    const turnaround = OFFERS_PER_TURNAROUND * (scoreboard.offerSecondsAt(endpoint) ?? 0);
    if (running === 0 || duration === undefined || turnaround < WORTH_QUEUEING * duration) continue;
    if (waiting >= Math.ceil((running * turnaround) / duration) || scoreboard.queueAt(endpoint) <= 0) continue;
    const wait = waiting / running;
    if (wait >= least) continue;
    least = wait;
    best = { id, member, queue: true };
  }
  return best;
}

/** The member that must run a job because the job entered there. In a mesh, other members may run it too. */
export function pinnedMember(
  { service }: DelegatingFederation,
  { openedBy }: Pick<JobRecord, 'openedBy'>,
): MemberId | undefined {
  return service.definition.federation?.topology.toLowerCase() === 'mesh' ? undefined : openedBy;
}

/** The id of this cluster as a candidate. */
export const ownId = ({ service }: DelegatingFederation, { self }: Pick<OriginDeps, 'self'>): MemberId =>
  `${self.clusterId}/${service.definition.name}`;

function candidateOf(member: DelegationMember, { record, inputBytes }: ChoiceInput, { scoreboard }: Asking): Candidate {
  const durationSeconds = scoreboard.durationAt(member.endpoint, record.service);
  const bandwidth = scoreboard.bandwidthAt(member.endpoint);
  return {
    member: member.id,
    type: member.type,
    isSelf: false,
    priority: member.priority,
    snapshot: scoreboard.snapshotFor(member.endpoint),
    inFlight: scoreboard.inFlightFor(member.endpoint),
    ...(durationSeconds !== undefined && { durationSeconds }),
    ...(bandwidth !== undefined && inputBytes !== undefined && { transferSeconds: inputBytes / bandwidth }),
  };
}

function ownCandidate({ federation, record }: ChoiceInput, deps: Asking): Candidate {
  const { priority = 0, weight } = federation.service.definition.federation?.self ?? {};
  const { snapshot, waiting, durationOf } = deps.ownStatus();
  const durationSeconds = durationOf?.(record.service);
  return {
    member: ownId(federation, deps),
    type: 'oscar',
    isSelf: true,
    priority,
    ...(weight !== undefined && { weight }),
    snapshot: { ...snapshot, pending: waiting },
    inFlight: deps.enteringQueue.total,
    ...(durationSeconds !== undefined && { durationSeconds }),
  };
}

/**
 * In a mesh, a job runs where it entered if there is capacity, or else at the origin if that has capacity; then the
 * policy decides.
 */
function preferred({ record, federation }: ChoiceInput, self: MemberId | undefined): MemberId[] {
  if (record.openedBy === undefined) return [];
  const always = federation.service.definition.federation?.delegate_when === 'always';
  return self === undefined || always ? [record.openedBy] : [record.openedBy, self];
}

function inOrder(
  rankings: readonly Ranking[],
  first: readonly MemberId[],
  last: MemberId | undefined,
): readonly Ranking[] {
  if (first.length === 0 && last === undefined) return rankings;
  const place = ({ candidate: { member }, refusal }: Ranking) => {
    if (refusal !== undefined) return Infinity;
    if (member === last) return Number.MAX_SAFE_INTEGER;
    const preference = first.indexOf(member);
    return preference < 0 ? first.length : preference;
  };
  return rankings.toSorted((a, b) => (place(a) === place(b) ? 0 : place(a) - place(b)));
}

function chosenOf({ member: id, isSelf }: Candidate, members: readonly DelegationMember[]): Chosen | undefined {
  const member = isSelf ? 'here' : members.find((each) => each.id === id);
  return member && { id, member };
}

/** Why no candidate accepts a job, for people: candidates with the same reason are listed together. */
export function summarizeRefusals(rankings: readonly Ranking[]): string {
  const read = rankings.slice(0, MOST_READ).filter(({ refusal }) => refusal !== undefined);
  const byReason = Map.groupBy(read, ({ refusal }) => refusal);
  const parts = [...byReason].map(
    ([reason, refused]) => `${named(refused.map(({ candidate }) => candidate.member))}: ${reason}`,
  );
  const shown = parts.slice(0, MOST_REASONS);
  const more = parts.length - shown.length;
  const unread = Math.max(0, rankings.length - MOST_READ);
  return [
    ...shown,
    ...(more > 0 ? [`and ${more} more reasons`] : []),
    ...(unread > 0 ? [`and ${unread} more members`] : []),
  ].join('; ');
}

/** Limits that keep the message readable, and cheap in a large federation. */
const MOST_READ = 32;
const MOST_REASONS = 5;
const MOST_NAMES = 5;

function named(members: readonly MemberId[]): string {
  const more = members.length - MOST_NAMES;
  return `${members.slice(0, MOST_NAMES).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}
