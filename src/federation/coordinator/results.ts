import { FederationError, type FederationErrorCode, PeerError, type PeerErrorCode } from '../../peers/index.ts';
import type { Journal } from '../../ports/index.ts';
import type { Coordination } from './coordination.ts';
import { type Ledger, type LedgerMember, Ledgers, listKeyIds, memberId } from './ledger.ts';

/** The result of a request to one member. It is identified by the key: a member that is added again is another one. */
export type MemberResult = { readonly keyId: string } & MemberOutcome;

type MemberOutcome =
  /** The member is up to date at this revision. */
  | {
      readonly kind: 'made';
      readonly revision: number;
      readonly digest: string;
      readonly instance?: string;
      /** The id of the next key, if the member has it now. */
      readonly rekeyed?: string;
    }
  /** The member has a later revision than this manager, which was restored from a backup. */
  | { readonly kind: 'ahead'; readonly revision: number }
  /** No worker of the federation is left there. */
  | { readonly kind: 'ended' }
  /** The member did not answer, or failed. */
  | { readonly kind: 'away'; readonly problem: PeerError }
  /** The member's manager answers that it has no worker of this federation. */
  | { readonly kind: 'missing'; readonly problem: PeerError }
  /** Another service has the member's name. */
  | { readonly kind: 'conflict'; readonly problem: PeerError }
  /** Its owner deleted it there. */
  | { readonly kind: 'left'; readonly problem: PeerError };

/**
 * The ledger with the results. Other writers may have changed it meanwhile: a result never brings back a leaving member, and
 * a result for a member that is gone is dropped.
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

/** Another manager may already have recorded that the member has its next key; the entry then has that key id. */
const resultKeyIds = (result: MemberResult) =>
  result.kind === 'made' && result.rekeyed !== undefined ? [result.keyId, result.rekeyed] : [result.keyId];

const AHEAD = 'it has a later revision than this manager; the next revision will be higher';

function recordResult(before: LedgerMember, result: MemberResult, now: number): LedgerMember[] {
  const member = result.kind === 'made' ? applyRekey(before, result.rekeyed, now) : before;
  const isEnding = member.state === 'undoing' || member.state === 'leaving';
  const { reason: _, ...known } = member;
  const { unrequested: __unrequested, ...requested } = known;
  switch (result.kind) {
    case 'ended':
      return isEnding ? [] : [member];
    case 'away':
      return [member.reason === result.problem.message ? member : { ...member, reason: result.problem.message }];
    case 'ahead':
      // Another manager may have just sent the member that revision.
      return [{ ...member, lastSeen: now, ...(result.revision > (member.revision ?? 0) && { reason: AHEAD }) }];
    case 'made': {
      if (isEnding || member.state === 'left' || result.revision < (member.revision ?? 0)) return [member];
      const { kind: __, keyId: ___, rekeyed: ____, ...facts } = result;
      return [
        {
          ...requested,
          keyedAt: now,
          ...keyedAtOf(member),
          ...facts,
          ...withState(member, 'made', now),
          lastSeen: now,
        },
      ];
    }
    default: {
      if (isEnding || member.state === 'left') return [member];
      // Without credentials to create the member, this check did not see what has its name, so `conflict` stays.
      if (result.kind === 'missing' && member.state === 'conflict') return [{ ...member, lastSeen: now }];
      const state = result.kind === 'missing' ? 'wanted' : result.kind;
      return [{ ...known, ...withState(member, state, now), lastSeen: now, reason: result.problem.message }];
    }
  }
}

const keyedAtOf = ({ keyedAt }: LedgerMember) => (keyedAt === undefined ? {} : { keyedAt });

/** Makes the next key the current one, if the member has it. */
function applyRekey(member: LedgerMember, keyId: string | undefined, now: number): LedgerMember {
  if (keyId === undefined || member.nextKeyId !== keyId) return member;
  const { nextKeyId: _, ...rest } = member;
  return { ...rest, keyId, keyedAt: now };
}

const withState = (member: LedgerMember, state: LedgerMember['state'], now: number) => ({
  state,
  since: member.state === state ? member.since : now,
});

/** The check of one member. */
export interface MemberCheck {
  /** `<cluster id>/<service>`. */
  readonly member: string;
  /** Absent if the member is fine. */
  readonly problem?: PeerError;
}

/** The most important code first: an answer has one code, and a user should fix credentials before waiting for a network. */
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

/** An error with a sentence, then one line with the reason for each member. */
export function membersError(sentence: string, verdicts: readonly MemberCheck[]): FederationError {
  const codes = new Set(verdicts.flatMap(({ problem }) => (problem ? [CODE_OF[problem.code]] : [])));
  const code = CODES.find((each) => codes.has(each)) ?? 'member-failed';
  const cause = verdicts.find(({ problem }) => problem && CODE_OF[problem.code] === code)?.problem;
  return new FederationError(code, [sentence, ...verdicts.map(formatCheck)].join('\n'), { cause });
}

function formatCheck({ member, problem }: MemberCheck): string {
  if (!problem) return `  ${member}: ok`;
  return `  ${member}: ${CODE_OF[problem.code].slice('member-'.length)}: ${problem.message}`;
}

/** An internal error is not a message for users, so it becomes a general one with the cause attached. */
export function toPeerError(error: unknown): PeerError {
  if (error instanceof PeerError) return error;
  return new PeerError('failed', 'internal error of this manager: see its log', {
    cause: error,
  });
}

/** The result for a member that its owner deleted. */
export const leftByOwner = (keyId: string): MemberResult => ({
  keyId,
  kind: 'left',
  problem: new PeerError('gone', 'its owner deleted it there: add it again to restore it'),
});

interface Stores {
  readonly journal: Journal;
  readonly now: () => number;
}

/**
 * Records that the owner of a member deletes it; the member's manager reports this before the delete. The member is not
 * created again until it is added again. If the federation is being created or removed, nothing is recorded: the next
 * request to the member finds out.
 */
export async function recordDeparture(uid: string, keyId: string, stores: Stores): Promise<void> {
  await new Ledgers(stores).amend(uid, (ledger) => {
    const member = ledger.members.find((each) => listKeyIds(each).includes(keyId));
    if (!member || ledger.phase !== 'active') return ledger;
    return recordResults(ledger, [leftByOwner(member.keyId)], stores.now());
  });
}

/** A change in whether a member can be brought up to date. */
export interface MemberHealthChange {
  /** The coordinator's service. */
  readonly service: string;
  /** `<cluster id>/<service>`. */
  readonly member: string;
  /** Host and port of the member's manager; empty if its cluster is unknown. */
  readonly host: string;
  /** Why the member could not be brought up to date; absent if it has recovered. */
  readonly problem?: PeerError;
}

/** Reports members whose problem differs from the one in the ledger, and members that have recovered. */
export function reportHealthChanges(
  { service, members }: Ledger,
  results: readonly MemberResult[],
  { onMemberHealth }: Pick<Coordination, 'onMemberHealth'>,
): void {
  const byKey = new Map(members.map((member) => [member.keyId, member]));
  for (const result of results) {
    const member = byKey.get(result.keyId);
    if (!member) continue;
    const problem = 'problem' in result ? result.problem : undefined;
    if (isSame(member, problem)) continue;
    const host = URL.parse(member.endpoint)?.host ?? '';
    onMemberHealth?.({ service, member: memberId(member), host, ...(problem && { problem }) });
  }
}

/** The ledger may hold only the beginning of a reason, so a common prefix counts as the same problem. */
function isSame({ reason }: LedgerMember, problem: PeerError | undefined): boolean {
  if (!problem || reason === undefined) return problem === reason;
  return problem.message.startsWith(reason) || reason.startsWith(problem.message);
}
