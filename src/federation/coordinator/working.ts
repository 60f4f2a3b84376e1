import { type Ledger, type LedgerMember, memberId } from '../ledger.ts';
import type { Coordination } from './coordination.ts';

/** How long a member that leaves may go on with what it has. Shorter: long jobs are lost. Longer: nobody waits for it. */
const LONGEST_DRAIN = 24 * 3_600_000;

/**
 * The members that leave and are not to be ended yet, since they hold jobs. Of whom nothing can be learnt now it is taken
 * for granted: it is asked again.
 */
export async function workingMembers(
  { serviceUid, members }: Ledger,
  { outstanding, now }: Pick<Coordination, 'outstanding' | 'now'>,
): Promise<ReadonlySet<LedgerMember>> {
  const may = members.filter(
    ({ state, force, since }) => state === 'leaving' && !force && now() - since < LONGEST_DRAIN,
  );
  const working = await Promise.all(
    may.map(async (member) => {
      const jobs = await outstanding?.(serviceUid, memberId(member)).catch(() => 1);
      return (jobs ?? 0) > 0 ? [member] : [];
    }),
  );
  return new Set(working.flat());
}
