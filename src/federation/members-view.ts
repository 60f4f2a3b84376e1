import type { Definition } from '../service/index.ts';
import type { Replica } from '../service/schema.ts';
import { type Ledger, type LedgerMember, memberId } from './ledger.ts';

/** What is known about a member, for `include=status`. */
export interface MemberStatus {
  readonly state: 'ready' | 'pending' | 'unreachable' | 'conflict' | 'removing' | 'removed-by-owner';
  readonly revision?: number;
  readonly last_seen?: string;
  readonly reason?: string;
}

export interface MembersView {
  readonly topology: string;
  /** Null when there are none, as clients expect (contract §1.12). */
  readonly members: readonly (Replica | (Replica & MemberStatus))[] | null;
}

/** The members of a service; with its ledger also what became of each, and those that are still leaving. */
export function membersView({ federation }: Pick<Definition, 'federation'>, ledger?: Ledger): MembersView {
  const { topology = 'none', members = [] } = federation ?? {};
  const shown = ledger ? withStatus(members, ledger) : members;
  return { topology, members: shown.length > 0 ? shown : null };
}

function withStatus(members: readonly Replica[], ledger: Ledger): (Replica & MemberStatus)[] {
  const known = new Map(ledger.members.filter((each) => !isGoing(each)).map((each) => [memberId(each), each]));
  const current = members.map((member) => {
    if (member.type !== 'oscar') return { ...member, state: 'ready' as const };
    const entry = known.get(`${member.cluster_id}/${member.service_name}`);
    return { ...member, ...(entry ? statusOf(entry, ledger) : { state: 'pending' as const }) };
  });
  const going = ledger.members.filter(isGoing).map((entry) => ({ ...replicaOf(entry), ...statusOf(entry, ledger) }));
  return [...current, ...going];
}

/** What is known of each member that this federation has made or is to make, by `<cluster id>/<service>`. */
export function memberStates(ledger: Ledger): Map<string, MemberStatus> {
  // One that is being ended and made anew is what it becomes.
  const last = ledger.members.toSorted((a, b) => Number(isGoing(b)) - Number(isGoing(a)));
  return new Map(last.map((member) => [memberId(member), statusOf(member, ledger)]));
}

const isGoing = ({ state }: LedgerMember) => state === 'leaving' || state === 'undoing';

function statusOf(member: LedgerMember, { revision }: Ledger): MemberStatus {
  return {
    state: stateOf(member, revision),
    ...(member.revision !== undefined && { revision: member.revision }),
    ...(member.lastSeen !== undefined && { last_seen: new Date(member.lastSeen).toISOString() }),
    ...(member.reason !== undefined && { reason: member.reason }),
  };
}

function stateOf(member: LedgerMember, revision: number): MemberStatus['state'] {
  switch (member.state) {
    case 'made':
      if (member.reason !== undefined) return 'unreachable';
      return member.revision === revision ? 'ready' : 'pending';
    case 'wanted':
      return 'pending';
    case 'conflict':
      return 'conflict';
    case 'left':
      return 'removed-by-owner';
    default:
      return 'removing';
  }
}

const replicaOf = ({ clusterId, service }: LedgerMember): Replica => ({
  type: 'oscar',
  cluster_id: clusterId,
  service_name: service,
  url: '',
  ssl_verify: false,
  priority: 0,
  headers: {},
});
