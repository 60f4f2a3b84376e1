import { type Ledger, type LedgerMember, memberId } from '../ledger.ts';
import { isCurrent } from './orders.ts';

/** A member that is not what it should be yet. */
export interface Pending {
  readonly member: string;
  readonly reason: string;
}

export function pendingOf(ledger: Ledger): Pending[] {
  return ledger.members
    .filter((member) => isPending(member, ledger))
    .map((member) => ({ member: memberId(member), reason: member.reason ?? 'it has not answered yet' }));
}

/** Is there one of which nobody says why? */
export const isUnexplained = (ledger: Ledger): boolean =>
  ledger.members.some((member) => isPending(member, ledger) && member.reason === undefined);

const isPending = (member: LedgerMember, { revision }: Ledger) =>
  isCurrent(member) && !(member.state === 'made' && member.revision === revision);
