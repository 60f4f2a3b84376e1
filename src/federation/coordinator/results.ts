import type { Ledger, LedgerMember } from '../ledger.ts';
import type { PeerError } from '../peer/peer.ts';

/** What came of asking one member, which is known by its key: added again, it is another. */
export type Result = { readonly keyId: string } & ResultOf;

type ResultOf =
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
export function recordResults(ledger: Ledger, results: readonly Result[], now: number): Ledger {
  const byKey = new Map(results.flatMap((result) => keysOf(result).map((key) => [key, result])));
  const members = ledger.members.flatMap((member) => {
    const result = byKey.get(member.keyId);
    return result ? recorded(member, result, now) : [member];
  });
  return members.every((member, index) => member === ledger.members[index]) && members.length === ledger.members.length
    ? ledger
    : { ...ledger, members };
}

/** Somebody may have seen before us that it has taken up its next key: then it is known by that. */
const keysOf = (result: Result) =>
  result.kind === 'made' && result.rekeyed !== undefined ? [result.keyId, result.rekeyed] : [result.keyId];

const AHEAD = 'it knows a later revision than this manager, which goes past that';

function recorded(before: LedgerMember, result: Result, now: number): LedgerMember[] {
  const member = result.kind === 'made' ? rekeyed(before, result.rekeyed, now) : before;
  const isEnding = member.state === 'undoing' || member.state === 'leaving';
  const { reason: _, ...known } = member;
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
        { ...known, keyedAt: now, ...keyedAtOf(member), ...facts, ...stateOf(member, 'made', now), lastSeen: now },
      ];
    }
    default: {
      if (isEnding || member.state === 'left') return [member];
      // Who may not make it has not seen what has its name.
      if (result.kind === 'missing' && member.state === 'conflict') return [{ ...member, lastSeen: now }];
      const state = result.kind === 'missing' ? 'wanted' : result.kind;
      return [{ ...known, ...stateOf(member, state, now), lastSeen: now, reason: result.problem.message }];
    }
  }
}

const keyedAtOf = ({ keyedAt }: LedgerMember) => (keyedAt === undefined ? {} : { keyedAt });

/** The member with the key that it answers to, whatever else became of it. */
function rekeyed(member: LedgerMember, keyId: string | undefined, now: number): LedgerMember {
  if (keyId === undefined || member.nextKeyId !== keyId) return member;
  const { nextKeyId: _, ...rest } = member;
  return { ...rest, keyId, keyedAt: now };
}

const stateOf = (member: LedgerMember, state: LedgerMember['state'], now: number) => ({
  state,
  since: member.state === state ? member.since : now,
});
