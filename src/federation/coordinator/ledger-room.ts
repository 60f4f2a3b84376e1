import { JOURNAL_STATE_BYTES } from '../../cluster/journal.ts';
import { FederationError } from '../errors.ts';
import { type Ledger, type LedgerMember, memberId } from '../ledger.ts';
import type { Wanted } from './align.ts';
import { nowhere } from './member/member-address.ts';
import { packedSize } from './pack-ledger.ts';

/**
 * Throws when the ledger could not hold what comes of these members: that has to be known before any of them is told. Of
 * members that are away for long it still names those that were removed, so that replacing all of them, again and again,
 * comes to an end. Whoever only removes members is never refused.
 */
export function requireRoom(ledger: Ledger, wanted: readonly Wanted[]): void {
  const known = new Set(ledger.members.filter(({ state }) => state !== 'undoing').map(memberId));
  if (wanted.every((each) => known.has(memberId(each)))) return;
  const ids = new Set(wanted.map(memberId));
  const going = ledger.members.filter((member) => member.state === 'undoing' || !ids.has(memberId(member)));
  const members = [...wanted.map(largest), ...going.map((member) => ({ ...member, state: 'undoing' as const }))];
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
function largest({ clusterId, service, place = nowhere(clusterId) }: Wanted): LedgerMember {
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
    revision: Number.MAX_SAFE_INTEGER,
    instance: 'f'.repeat(36),
    lastSeen: TIME,
    since: TIME,
    reason: '€'.repeat(120),
  };
}
