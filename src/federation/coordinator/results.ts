import { FederationError, type FederationErrorCode, PeerError, type PeerErrorCode } from '../../peers/index.ts';
import type { Journal } from '../../ports/index.ts';
import type { Coordination } from './coordination.ts';
import { type Ledger, type LedgerMember, Ledgers, listKeyIds, memberId } from './ledger.ts';

/** What came of asking one member, which is known by its key: added again, it is another. */
export type MemberResult = { readonly keyId: string } & MemberOutcome;

type MemberOutcome =
  /** It is what it should be at this revision. */
  | {
      readonly kind: 'made';
      readonly revision: number;
      readonly digest: string;
      readonly instance?: string;
      /** The id of the key that it has taken up. */
      readonly rekeyed?: string;
    }
  /** It has a revision that is yet to come: this manager was restored from a backup. */
  | { readonly kind: 'ahead'; readonly revision: number }
  /** Nothing of the federation is there any more. */
  | { readonly kind: 'ended' }
  /** It could not be asked, or could not do it. */
  | { readonly kind: 'away'; readonly problem: PeerError }
  /** It answers that there is nothing of this federation. */
  | { readonly kind: 'missing'; readonly problem: PeerError }
  /** Something else has its name. */
  | { readonly kind: 'conflict'; readonly problem: PeerError }
  /** Its owner ended it there. */
  | { readonly kind: 'left'; readonly problem: PeerError };

/**
 * The ledger with what is known by now. Others may have written meanwhile: a result never brings back a member that is
 * leaving, and none is recorded for a member that is gone.
 */
export function recordResults(ledger: Ledger, results: readonly MemberResult[], now: number): Ledger {
  const byKey = new Map(results.flatMap((result) => resultKeyIds(result).map((key) => [key, result])));
  const members = ledger.members.flatMap((member) => {
    const result = byKey.get(member.keyId);
    return result ? recordResult(member, result, now) : [member];
  });
  return members.every((member, index) => member === ledger.members[index]) && members.length === ledger.members.length
    ? ledger
    : { ...ledger, members };
}

/** Somebody may have seen before us that it has taken up its next key: then it is known by that. */
const resultKeyIds = (result: MemberResult) =>
  result.kind === 'made' && result.rekeyed !== undefined ? [result.keyId, result.rekeyed] : [result.keyId];

const AHEAD = 'it knows a later revision than this manager, which goes past that';

function recordResult(before: LedgerMember, result: MemberResult, now: number): LedgerMember[] {
  const member = result.kind === 'made' ? applyRekey(before, result.rekeyed, now) : before;
  const isEnding = member.state === 'undoing' || member.state === 'leaving';
  const { reason: _, ...known } = member;
  const { unrequested: _untold, ...told } = known;
  switch (result.kind) {
    case 'ended':
      return isEnding ? [] : [member];
    case 'away':
      return [member.reason === result.problem.message ? member : { ...member, reason: result.problem.message }];
    case 'ahead':
      // Who wrote last may have told it of that revision just now.
      return [{ ...member, lastSeen: now, ...(result.revision > (member.revision ?? 0) && { reason: AHEAD }) }];
    case 'made': {
      if (isEnding || member.state === 'left' || result.revision < (member.revision ?? 0)) return [member];
      const { kind: __, keyId: ___, rekeyed: ____, ...facts } = result;
      return [
        { ...told, keyedAt: now, ...keyedAtOf(member), ...facts, ...withState(member, 'made', now), lastSeen: now },
      ];
    }
    default: {
      if (isEnding || member.state === 'left') return [member];
      // Who may not make it has not seen what has its name.
      if (result.kind === 'missing' && member.state === 'conflict') return [{ ...member, lastSeen: now }];
      const state = result.kind === 'missing' ? 'wanted' : result.kind;
      return [{ ...known, ...withState(member, state, now), lastSeen: now, reason: result.problem.message }];
    }
  }
}

const keyedAtOf = ({ keyedAt }: LedgerMember) => (keyedAt === undefined ? {} : { keyedAt });

/** The member with the key that it answers to, whatever else became of it. */
function applyRekey(member: LedgerMember, keyId: string | undefined, now: number): LedgerMember {
  if (keyId === undefined || member.nextKeyId !== keyId) return member;
  const { nextKeyId: _, ...rest } = member;
  return { ...rest, keyId, keyedAt: now };
}

const withState = (member: LedgerMember, state: LedgerMember['state'], now: number) => ({
  state,
  since: member.state === state ? member.since : now,
});

/** What is said about one member. */
export interface MemberCheck {
  /** `<cluster id>/<service>`. */
  readonly member: string;
  /** Absent when nothing is wrong with it. */
  readonly problem?: PeerError;
}

/** The worst comes first: one answer has one code, and a user mends credentials before they wait for a network. */
const CODES = [
  'member-refused',
  'member-taken',
  'member-unreachable',
  'member-failed',
] as const satisfies FederationErrorCode[];

const CODE_OF: Record<PeerErrorCode, (typeof CODES)[number]> = {
  refused: 'member-refused',
  taken: 'member-taken',
  unreachable: 'member-unreachable',
  gone: 'member-failed',
  stale: 'member-failed',
  failed: 'member-failed',
};

/** One sentence, then every member with its reason. */
export function membersError(sentence: string, verdicts: readonly MemberCheck[]): FederationError {
  const codes = new Set(verdicts.flatMap(({ problem }) => (problem ? [CODE_OF[problem.code]] : [])));
  const code = CODES.find((each) => codes.has(each)) ?? 'member-failed';
  const cause = verdicts.find(({ problem }) => problem && CODE_OF[problem.code] === code)?.problem;
  return new FederationError(code, [sentence, ...verdicts.map(formatCheck)].join('\n'), { cause });
}

function formatCheck({ member, problem }: MemberCheck): string {
  if (!problem) return `  ${member}: nothing is wrong there`;
  return `  ${member}: ${CODE_OF[problem.code].slice('member-'.length)}: ${problem.message}`;
}

/** A fault of ours in between is no secret of the peer's, but no sentence for users either. */
export function toPeerError(error: unknown): PeerError {
  if (error instanceof PeerError) return error;
  return new PeerError('failed', 'something went wrong on the way there: the log of this manager says what', {
    cause: error,
  });
}

/** Its owner has ended a member there. */
export const leftByOwner = (keyId: string): MemberResult => ({
  keyId,
  kind: 'left',
  problem: new PeerError('gone', 'its owner ended it there: add it again to have it back'),
});

interface Stores {
  readonly journal: Journal;
  readonly now: () => number;
}

/**
 * Writes down that the owner of a member ends it there, as its manager says before it does so: it is not made again until it
 * is added again. What is just being made, or is ending anyway, learns it when it next asks there.
 */
export async function recordDeparture(uid: string, keyId: string, stores: Stores): Promise<void> {
  await new Ledgers(stores).amend(uid, (ledger) => {
    const member = ledger.members.find((each) => listKeyIds(each).includes(keyId));
    if (!member || ledger.phase !== 'active') return ledger;
    return recordResults(ledger, [leftByOwner(member.keyId)], stores.now());
  });
}

/** What has changed about how a member answers. */
export interface MemberHealthChange {
  /** Of the coordinator. */
  readonly service: string;
  /** `<cluster id>/<service>`. */
  readonly member: string;
  /** Host and port of its manager; empty when its cluster is unknown. */
  readonly host: string;
  /** Why it could not be brought to what it should be. Absent: it is, after it could not be. */
  readonly problem?: PeerError;
}

/** Tells of members with which something else is wrong than the ledger said before, and of those that are well again. */
export function reportHealthChanges(
  { service, members }: Ledger,
  results: readonly MemberResult[],
  { onMemberHealth: looked }: Pick<Coordination, 'onMemberHealth'>,
): void {
  const byKey = new Map(members.map((member) => [member.keyId, member]));
  for (const result of results) {
    const member = byKey.get(result.keyId);
    if (!member) continue;
    const problem = 'problem' in result ? result.problem : undefined;
    if (isSame(member, problem)) continue;
    const host = URL.parse(member.endpoint)?.host ?? '';
    looked?.({ service, member: memberId(member), host, ...(problem && { problem }) });
  }
}

/** The ledger may hold the beginning of a reason only, and a member that is left alone for a while has a longer one. */
function isSame({ reason }: LedgerMember, problem: PeerError | undefined): boolean {
  if (!problem || reason === undefined) return problem === reason;
  return problem.message.startsWith(reason) || reason.startsWith(problem.message);
}
