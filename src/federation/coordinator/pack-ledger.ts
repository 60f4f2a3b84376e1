import { JOURNAL_STATE_BYTES, type JournalState, type JournalValue } from '../../cluster/journal.ts';
import type { Ledger, LedgerMember } from '../ledger.ts';

/**
 * A ledger as an entry of the journal holds it. An entry has 64 KiB and a federation may have 100 members, and as many that
 * are being ended: so a member is a list without the names of its fields, digests are in base64, and the address of a
 * cluster is there once. Where that is still too much, it holds only what the federation cannot do without.
 */
export function packLedger(ledger: Ledger): JournalState {
  const whole = packMembers(ledger, (member) => member);
  return sizeOf(whole) <= JOURNAL_STATE_BYTES ? whole : packMembers(ledger, spare);
}

/** The least that an entry for this ledger takes. */
export const packedSize = (ledger: Ledger): number => sizeOf(packMembers(ledger, spare));

const sizeOf = (state: JournalState) => Buffer.byteLength(JSON.stringify(state));

/** That there is a reason says that a member is away, so some of it stays. */
const SPARE_REASON = 16;

/** What a member has to be brought up to date, or ended, by. */
function spare(member: LedgerMember): LedgerMember {
  const { digest: _, reason, ...known } = member;
  if (member.state !== 'undoing' && member.state !== 'leaving')
    return { ...known, ...(reason && { reason: reason.slice(0, SPARE_REASON) }) };
  const { instance: __, lastSeen: ___, keyedAt: ____, ...ending } = known;
  return ending;
}

function packMembers(
  { uid: _, members, ...ledger }: Ledger,
  shown: (member: LedgerMember) => LedgerMember,
): JournalState {
  const places: JournalValue[][] = [];
  const indexes = new Map<string, number>();
  const placeOf = ({ clusterId, endpoint, verify, guarded, kind }: LedgerMember) => {
    const place = [clusterId, endpoint, verify, guarded, kind];
    const known = JSON.stringify(place);
    if (!indexes.has(known)) indexes.set(known, places.push(place) - 1);
    return indexes.get(known) ?? 0;
  };
  const packed = members.map((member) => packMember(shown(member), placeOf(member)));
  return { ...ledger, places, members: packed };
}

export function unpackLedger(uid: string, state: JournalState): Ledger {
  const { places, members, ...ledger } = state as unknown as Omit<Ledger, 'uid' | 'members'> & {
    places: Place[];
    members: Packed[];
  };
  return { uid, ...ledger, members: members.map((member) => unpackMember(member, places)) };
}

type Place = [clusterId: string, endpoint: string, verify: boolean, guarded: boolean, kind: LedgerMember['kind']];
type Packed = [
  place: number,
  service: string,
  keyId: string,
  state: LedgerMember['state'],
  since: number,
  end?: 'undo' | 'detach' | null,
  revision?: number | null,
  digest?: string | null,
  instance?: string | null,
  lastSeen?: number | null,
  reason?: string | null,
  nextKeyId?: string | null,
  keyedAt?: number | null,
  force?: boolean | null,
];

/** A sentence; the end of a longer one is in the log. */
const LONGEST_REASON = 120;

function packMember(member: LedgerMember, place: number): JournalValue[] {
  const { service, keyId, state, since, end, revision, digest, instance, lastSeen, reason } = member;
  const { nextKeyId, keyedAt, force } = member;
  return withoutTail([
    place,
    service,
    shorten(keyId),
    state,
    since,
    end ?? null,
    revision ?? null,
    digest === undefined ? null : shorten(digest),
    instance ?? null,
    lastSeen ?? null,
    reason?.slice(0, LONGEST_REASON) ?? null,
    nextKeyId === undefined ? null : shorten(nextKeyId),
    keyedAt ?? null,
    force ?? null,
  ]);
}

/** What most members have not stands last, and need not be there. */
const withoutTail = (packed: JournalValue[]) => packed.slice(0, packed.findLastIndex((each) => each !== null) + 1);

function unpackMember(packed: Packed, places: readonly Place[]): LedgerMember {
  const [place, service, keyId, state, since, end = null, revision = null, digest = null, ...rest] = packed;
  const [instance = null, lastSeen = null, reason = null, nextKeyId = null, keyedAt = null, force = null] = rest;
  const [clusterId, endpoint, verify, guarded, kind] = places[place] ?? (['', '', true, true, 'oscar'] as const);
  return {
    clusterId,
    service,
    endpoint,
    verify,
    guarded,
    kind,
    state,
    since,
    keyId: lengthen(keyId),
    ...(end !== null && { end }),
    ...(revision !== null && { revision }),
    ...(digest !== null && { digest: lengthen(digest) }),
    ...(instance !== null && { instance }),
    ...(lastSeen !== null && { lastSeen }),
    ...(reason !== null && { reason }),
    ...(nextKeyId !== null && { nextKeyId: lengthen(nextKeyId) }),
    ...(keyedAt !== null && { keyedAt }),
    ...(force !== null && { force }),
  };
}

/** A digest in hexadecimal is half as long again as in base64; anything else stays as it is. */
const shorten = (text: string) =>
  /^[0-9a-f]{64}$/.test(text) ? `~${Buffer.from(text, 'hex').toString('base64url')}` : text;

const lengthen = (text: string) =>
  text.startsWith('~') ? Buffer.from(text.slice(1), 'base64url').toString('hex') : text;
