import { isDeepStrictEqual } from 'node:util';
import { MAX_MEMBERS } from '../../model/service/index.ts';
import { FederationError } from '../../peers/index.ts';
import { type Ledger, type LedgerMember, MAX_MEMBER_BYTES, memberId, packedSize } from './ledger.ts';
import { type StoredAddress, unknownAddress } from './member-access.ts';

/** A member that the definition asks for. */
export interface DesiredMember {
  readonly clusterId: string;
  readonly service: string;
  /** Absent if the cluster is unknown. */
  readonly address?: StoredAddress;
  /** Why the member cannot be created. */
  readonly problem?: string;
  /** Neither the operator nor the definition names the cluster. */
  readonly unknown?: true;
}

export interface Alignment {
  readonly revision: number;
  readonly wanted: readonly DesiredMember[];
  /** Ids of keys that are no longer stored. */
  readonly lostKeyIds: ReadonlySet<string>;
  /** Whether credentials are available to create a member again with another key. */
  readonly renew: boolean;
  /** Selects the members whose key is replaced. */
  readonly rekey?: (member: LedgerMember) => boolean;
  readonly newKeyId: () => string;
  readonly now: number;
}

/**
 * The ledger that the definition asks for: new members are `wanted`, others are `leaving`. A leaving member that is added
 * again keeps its key and state; a member that is already being ended gets a second entry, and is created again once the
 * first has ended. A definition of an older revision is ignored.
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
  const address = wanted.address ?? known ?? unknownAddress(clusterId);
  const { endpoint, verify, guarded, kind } = address;
  const fresh = { clusterId, service, endpoint, verify, guarded, kind, ...(problem && { reason: problem }) };
  const keyed = known && promoteNextKey(known, lost);
  const made = keyed && lost.has(keyed.keyId) && (renew || keyed.state === 'wanted') ? undefined : keyed;
  // A member that is created again with another key may still exist with the former one.
  const unrequested = known ? known.unrequested : true;
  if (!made) return { ...fresh, keyId: newKeyId(), state: 'wanted', since: now, ...(unrequested && { unrequested }) };
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

/**
 * A key is deleted only after the member has the next one. So if the current key is gone and the next one is stored, a
 * manager stopped after the switch and before it recorded it.
 */
function promoteNextKey(member: LedgerMember, lost: ReadonlySet<string>): LedgerMember {
  const { nextKeyId, ...rest } = member;
  if (nextKeyId === undefined || lost.has(nextKeyId) || !lost.has(member.keyId)) return member;
  return { ...rest, keyId: nextKeyId };
}

/** A stored next key may already be known to the member, so it is kept. */
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

/** The reason shown for a leaving member that still has jobs. */
const HOLDS_WORK = 'it still has jobs: it is removed when they end, or after 24 hours';

/**
 * Leaving members without jobs become `undoing`; adding one again creates it anew. The others get the reason they wait for.
 */
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
 * Members of one ledger, with those that are still to be ended. With a larger value, repeatedly replacing all members of
 * unreachable clusters makes each change slower; with a smaller one, it is rejected sooner.
 */
const MAX_LEDGER_MEMBERS = 4 * MAX_MEMBERS;

/**
 * Throws if the ledger cannot hold these members; this must be known before any request is sent. Removed members stay in the
 * ledger until they have ended, so replacing all members of unreachable clusters repeatedly is limited. Removing members is
 * never rejected.
 */
export function requireLedgerCapacity(ledger: Ledger, wanted: readonly DesiredMember[]): void {
  const known = new Set(ledger.members.filter(({ state }) => state !== 'undoing').map(memberId));
  if (wanted.every((each) => known.has(memberId(each)))) return;
  const large = wanted.find((each) => packedSize(largestMember(each)) > MAX_MEMBER_BYTES);
  if (large) throw noCapacity(`the address of cluster "${large.clusterId}" is too long: use a shorter one`);
  const ids = new Set(wanted.map(memberId));
  const going = ledger.members.filter((member) => member.state === 'undoing' || !ids.has(memberId(member)));
  if (wanted.length + going.length <= MAX_LEDGER_MEMBERS) return;
  throw noCapacity(
    `the record of the federation has no room for the new members until ${going.length} removed members are deleted on their clusters: try again later`,
  );
}

const noCapacity = (why: string) => new FederationError('invalid-federation', `federation.members: ${why}`);

const DIGEST = 'f'.repeat(64);
const TIME = 9_999_999_999_999;

/** A member with the largest value of every field. */
function largestMember({ clusterId, service, address = unknownAddress(clusterId) }: DesiredMember): LedgerMember {
  return {
    ...address,
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
