import { type PlacementMode, SUSPENDED_PATIENCE_MS, toTraceparent } from '../../jobs/index.ts';
import { OscarError } from '../../lib/oscar-error.ts';
import type { Secret } from '../../lib/secret.ts';
import type { JobRecord } from '../../model/job/index.ts';
import { CLUSTER_ADMIN } from '../../model/service/index.ts';
import type { Offer, OfferAnswer } from '../../peers/index.ts';
import { type Candidate, type MemberId, type Ranking, rank } from '../policies/index.ts';
import type { InFlightJobs } from '../scoreboard/index.ts';
import type { DelegatingFederation, DelegationMember } from './members.ts';
import { NO_METERS } from './meters.ts';
import type { OriginDeps } from './origin.ts';

/** Everything that goes into an offer beside the record. */
export interface OfferParts {
  readonly member: DelegationMember;
  readonly federation: DelegatingFederation;
  readonly event: Uint8Array;
  readonly bearer: Secret | undefined;
}

type Deps = Pick<OriginDeps, 'self' | 'meters' | 'report'>;

/** Asks a member to run the current attempt of a job. `silent`: it is not known what became of that. */
export async function offerJob(record: JobRecord, offered: OfferParts, deps: Deps): Promise<OfferAnswer | 'silent'> {
  const { meters = NO_METERS, report } = deps;
  const { member, bearer } = offered;
  const began = performance.now();
  const seconds = () => (performance.now() - began) / 1000;
  try {
    const answer = await member.target.offer(wordsOf(record, offered, deps), {
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

function wordsOf(record: JobRecord, { member, federation, event }: OfferParts, { self }: Deps): Offer {
  const job = { service: record.service, id: record.id };
  return {
    job,
    epoch: record.epoch,
    service: member.service,
    from: self.clusterId,
    event,
    trigger: record.trigger === 'storage' ? 'storage' : 'job',
    pinned: pinnedMember(federation, record) !== undefined,
    trace: toTraceparent(job),
  };
}

/** A token of the owner for this member. Undefined where none is needed; a sentence where it cannot be had. */
export async function bearerFor(
  { type, place }: DelegationMember,
  { service }: DelegatingFederation,
  { getOwnerToken, report }: Pick<OriginDeps, 'getOwnerToken' | 'report'>,
): Promise<Secret | string | undefined> {
  if (!getOwnerToken || type === 'endpoint' || service.owner === CLUSTER_ADMIN) return undefined;
  try {
    return await getOwnerToken(service, place);
  } catch (problem) {
    if (problem instanceof OscarError) return problem.message;
    report(problem, { service: service.definition.name, id: '' });
    return 'no token of the owner could be had';
  }
}

/** What is asked before a job is offered. */
interface ChoiceInput {
  readonly record: JobRecord;
  readonly federation: DelegatingFederation;
  readonly mode: PlacementMode;
  /** Who has refused it already, and why. */
  readonly refusals: ReadonlyMap<MemberId, string>;
  /** Asked after all others, having lost the job before. */
  readonly last?: MemberId | undefined;
}

/** All who were thought of, best first; and the first of them that the job may be offered to. */
export interface MemberChoice {
  readonly rankings: readonly Ranking[];
  readonly chosen: Chosen | undefined;
}

export type Chosen = { readonly id: MemberId; readonly member: DelegationMember | 'here' };

interface Asking extends Pick<OriginDeps, 'scoreboard' | 'ownStatus' | 'self' | 'random' | 'clock'> {
  /** What was decided for this cluster and is not in line yet: the room it needs is not reserved. */
  readonly enteringQueue: Pick<InFlightJobs, 'total'>;
}

/** Where the job goes next, by its policy and what is known now. No time passes in here. */
export function chooseMember(question: ChoiceInput, deps: Asking): MemberChoice {
  const { record, federation, mode, refusals } = question;
  const { delegation, weights } = federation.service.definition.federation ?? {};
  const pinnedTo = pinnedMember(federation, record);
  const members = federation.members.filter(({ id }) => pinnedTo === undefined || id === pinnedTo);
  const candidates = members.map((member) => candidateOf(member, deps));
  const self = mode === 'any' && pinnedTo === undefined ? ownCandidate(federation, deps) : undefined;

  const why = new Map([
    ...members.flatMap(({ id, endpoint, ineligible }) => {
      // What entered there waits there: whether there is room now is not the question.
      const full = pinnedTo === undefined ? deps.scoreboard.noRoomReason(endpoint, id, record.demand) : undefined;
      const reason = ineligible ?? full;
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
  return { rankings, chosen };
}

/** The member that a job must run at, because it entered there: only in a mesh others may have it. */
export function pinnedMember(
  { service }: DelegatingFederation,
  { openedBy }: Pick<JobRecord, 'openedBy'>,
): MemberId | undefined {
  return service.definition.federation?.topology.toLowerCase() === 'mesh' ? undefined : openedBy;
}

/** This cluster among the candidates. */
export const ownId = ({ service }: DelegatingFederation, { self }: Pick<OriginDeps, 'self'>): MemberId =>
  `${self.clusterId}/${service.definition.name}`;

function candidateOf(member: DelegationMember, { scoreboard }: Asking): Candidate {
  return {
    member: member.id,
    type: member.type,
    isSelf: false,
    priority: member.priority,
    snapshot: scoreboard.snapshotFor(member.endpoint),
    inFlight: scoreboard.inFlightFor(member.endpoint),
  };
}

function ownCandidate(federation: DelegatingFederation, deps: Asking): Candidate {
  const { priority = 0, weight } = federation.service.definition.federation?.self ?? {};
  const { snapshot, waiting } = deps.ownStatus();
  return {
    member: ownId(federation, deps),
    type: 'oscar',
    isSelf: true,
    priority,
    ...(weight !== undefined && { weight }),
    snapshot: { ...snapshot, pending: waiting },
    inFlight: deps.enteringQueue.total,
  };
}

/** In a mesh a job stays where it entered if there is room, or comes here if this cluster is not full; then the policy. */
function preferred({ record, federation }: ChoiceInput, self: MemberId | undefined): MemberId[] {
  if (record.openedBy === undefined) return [];
  const always = federation.service.definition.federation?.delegate_when === 'always';
  return self === undefined || always ? [record.openedBy] : [record.openedBy, self];
}

function inOrder(rankings: readonly Ranking[], first: readonly MemberId[], last: MemberId | undefined): Ranking[] {
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

/** Why nobody takes a job, for people: who has the same reason is named once. */
export function summarizeRefusals(rankings: readonly Ranking[]): string {
  const byReason = Map.groupBy(
    rankings.filter(({ refusal }) => refusal !== undefined),
    ({ refusal }) => refusal,
  );
  const parts = [...byReason].map(
    ([reason, refused]) => `${named(refused.map(({ candidate }) => candidate.member))}: ${reason}`,
  );
  const shown = parts.slice(0, MOST_REASONS);
  const more = parts.length - shown.length;
  return `${shown.join('; ')}${more > 0 ? `; and ${more} more reasons` : ''}`;
}

/** Messages are read by people. */
const MOST_REASONS = 5;
const MOST_NAMES = 5;

function named(members: readonly MemberId[]): string {
  const more = members.length - MOST_NAMES;
  return `${members.slice(0, MOST_NAMES).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}
