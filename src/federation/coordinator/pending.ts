import { type Ledger, memberId } from '../ledger.ts';
import { isCurrent } from './orders.ts';

/** A member that is not what it should be yet. */
export interface Pending {
  readonly member: string;
  readonly reason: string;
}

export function pendingOf({ members, revision }: Ledger): Pending[] {
  return members
    .filter((member) => isCurrent(member) && !(member.state === 'made' && member.revision === revision))
    .map((member) => ({ member: memberId(member), reason: member.reason ?? 'it has not answered yet' }));
}
