import { isDeepStrictEqual } from 'node:util';
import { FederationError } from '../../peers/index.ts';
import { JOURNAL_STATE_BYTES } from '../../ports/index.ts';
import { type Ledger, type LedgerMember, memberId, packedSize } from './ledger.ts';
import { type StoredAddress, unknownAddress } from './member-access.ts';

/** What a definition says about one member. */
export interface DesiredMember {
  readonly clusterId: string;
  readonly service: string;
  /** Absent when nobody knows that cluster. */
  readonly address?: StoredAddress;
  /** Why it cannot be made. */
  readonly problem?: string;
}

export interface Alignment {
  readonly revision: number;
  readonly wanted: readonly DesiredMember[];
  /** Ids of keys that are not kept any more. */
  readonly lostKeyIds: ReadonlySet<string>;
  /** Is somebody there who can make a member anew under another key? */
  readonly renew: boolean;
  /** Which members get another key, although they have one. */
  readonly rekey?: (member: LedgerMember) => boolean;
  readonly newKeyId: () => string;
  readonly now: number;
}

/**
 * The ledger as the definition wants it: new members are to be made, others leave. One that is leaving and is wanted again
 * stays what it was, key and all; one that is being ended already is made anew beside it, once that is done. The definition
 * of an older revision says nothing.
 */
export function alignLedger(ledger: Ledger, alignment: Alignment): Ledger {
  if (alignment.revision < ledger.revision) return ledger;
  const byId = new Map(ledger.members.filter(({ state }) => state !== 'undoing').map((each) => [memberId(each), each]));
  const wanted = alignment.wanted.map((each) => alignMember(each, byId.get(memberId(each)), alignment));
  const ids = new Set(alignment.wanted.map(memberId));
  const others = ledger.members
    .filter((member) => member.state === 'undoing' || !ids.has(memberId(member)))
    .map((member) => markLeaving(member, alignment.now));
  const next = { ...ledger, revision: alignment.revision, members: [...wanted, ...others] };
  return isDeepStrictEqual(next, ledger) ? ledger : next;
}

function alignMember(wanted: DesiredMember, known: LedgerMember | undefined, alignment: Alignment): LedgerMember {
  const { now, newKeyId, lostKeyIds: lost, renew } = alignment;
  const { clusterId, service, problem } = wanted;
  const place = wanted.address ?? known ?? unknownAddress(clusterId);
  const { endpoint, verify, guarded, kind } = place;
  const fresh = { clusterId, service, endpoint, verify, guarded, kind, ...(problem && { reason: problem }) };
  const keyed = known && promoteNextKey(known, lost);
  const made = keyed && lost.has(keyed.keyId) && (renew || keyed.state === 'wanted') ? undefined : keyed;
  // What is made anew under another key may be there under the one before.
  const untold = known ? known.unrequested : true;
  if (!made)
    return { ...fresh, keyId: newKeyId(), state: 'wanted', since: now, ...(untold && { unrequested: untold }) };
  const member = planNextKey({ ...made, ...fresh }, alignment);
  if (made.state !== 'leaving') return member;
  const { end: _, force: __, reason: ___, ...staying } = member;
  return {
    ...staying,
    state: made.revision === undefined ? 'wanted' : 'made',
    since: now,
    ...(problem && { reason: problem }),
  };
}

/** A key goes when the member has taken up the next one: whoever was stopped before it said so had come that far. */
function promoteNextKey(member: LedgerMember, lost: ReadonlySet<string>): LedgerMember {
  const { nextKeyId, ...rest } = member;
  if (nextKeyId === undefined || lost.has(nextKeyId) || !lost.has(member.keyId)) return member;
  return { ...rest, keyId: nextKeyId };
}

/** A next key that is kept may be known there already, so that it stays the next one. */
function planNextKey(member: LedgerMember, { rekey, lostKeyIds: lost, newKeyId }: Alignment): LedgerMember {
  const { nextKeyId, keyId, state, kind } = member;
  const isPlanned = nextKeyId !== undefined && !lost.has(nextKeyId);
  const isWanted = state === 'made' && kind === 'oscar' && !lost.has(keyId) && rekey?.(member);
  return isPlanned || !isWanted ? member : { ...member, nextKeyId: newKeyId() };
}

function markLeaving(member: LedgerMember, now: number): LedgerMember {
  if (member.state === 'undoing' || member.state === 'leaving') return member;
  const { reason: _, ...known } = member;
  return { end: 'undo', ...known, state: 'leaving', since: now };
}

/** Why a member that leaves is still there. */
const HOLDS_WORK = 'it still has jobs: it is ended when they are done, or after 24 hours';

/** Members without work are ended from here on; whoever adds one again makes it anew. Others say what they wait for. */
export function endIdleMembers(ledger: Ledger, isWorking: (member: LedgerMember) => boolean): Ledger {
  const members = ledger.members.map((member): LedgerMember => {
    if (member.state !== 'leaving') return member;
    if (isWorking(member)) return member.reason === HOLDS_WORK ? member : { ...member, reason: HOLDS_WORK };
    const { reason: _, ...known } = member;
    return { ...known, state: 'undoing' };
  });
  return members.every((member, index) => member === ledger.members[index]) ? ledger : { ...ledger, members };
}

/**
 * Throws when the ledger could not hold what comes of these members: that has to be known before any of them is told. Of
 * members that are away for long it still names those that were removed, so that replacing all of them, again and again,
 * comes to an end. Whoever only removes members is never refused.
 */
export function requireLedgerCapacity(ledger: Ledger, wanted: readonly DesiredMember[]): void {
  const known = new Set(ledger.members.filter(({ state }) => state !== 'undoing').map(memberId));
  if (wanted.every((each) => known.has(memberId(each)))) return;
  const ids = new Set(wanted.map(memberId));
  const going = ledger.members.filter((member) => member.state === 'undoing' || !ids.has(memberId(member)));
  const members = [...wanted.map(largestMember), ...going.map((member) => ({ ...member, state: 'undoing' as const }))];
  if (packedSize({ ...ledger, members, revision: Number.MAX_SAFE_INTEGER }) <= JOURNAL_STATE_BYTES) return;
  const why =
    going.length > 0
      ? `${going.length} that were removed have not been ended yet, and there is no room for these beside them: try again when they are`
      : `there is no room for what has to be kept about ${wanted.length}: name fewer, or shorter addresses`;
  throw new FederationError('invalid-federation', `federation.members: ${why}`);
}

const DIGEST = 'f'.repeat(64);
const TIME = 9_999_999_999_999;

/** With everything that may become known of it. */
function largestMember({
  clusterId,
  service,
  address: place = unknownAddress(clusterId),
}: DesiredMember): LedgerMember {
  return {
    ...place,
    clusterId,
    service,
    keyId: DIGEST,
    nextKeyId: DIGEST,
    keyedAt: TIME,
    state: 'conflict',
    end: 'detach',
    force: true,
    unrequested: true,
    revision: Number.MAX_SAFE_INTEGER,
    instance: 'f'.repeat(36),
    lastSeen: TIME,
    since: TIME,
    reason: '€'.repeat(120),
  };
}
