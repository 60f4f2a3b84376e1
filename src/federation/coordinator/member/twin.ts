import { type Ledger, type LedgerMember, memberId } from '../../ledger.ts';
import { PeerError } from '../../peer/peer.ts';
import type { Coordination } from '../coordination.ts';
import { isCurrent } from '../orders.ts';

/**
 * Why a member is not made on the manager that answers: its service there is the coordinator's own, or another member, under
 * another id of that cluster. Of two members the one that is made comes first, then the one that was named first: each of
 * them would take the worker from the other, again and again.
 */
export function twinOf(
  member: LedgerMember,
  instance: string,
  { service, members }: Pick<Ledger, 'service' | 'members'>,
  { here }: Pick<Coordination, 'here'>,
): PeerError | undefined {
  if (instance === here.instance && member.service === service) {
    return new PeerError('taken', 'it is the service itself, under another id of this cluster: remove it');
  }
  const rank = (each: LedgerMember) => (each.state === 'made' ? 0 : members.length) + members.indexOf(each);
  const first = members.find(
    (other) =>
      isCurrent(other) &&
      other.state !== 'left' &&
      other.instance === instance &&
      other.service === member.service &&
      memberId(other) !== memberId(member) &&
      rank(other) < rank(member),
  );
  return (
    first && new PeerError('taken', `it is the same service as ${memberId(first)}, of the same manager: remove it`)
  );
}
