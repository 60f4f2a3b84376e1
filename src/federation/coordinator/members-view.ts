import { setTimeout as pause } from 'node:timers/promises';
import { may, type Principal } from '../../identity/index.ts';
import type { Definition, Replica } from '../../model/service/index.ts';
import type { Journal, ServiceStore } from '../../ports/index.ts';
import { type Ledger, type LedgerMember, Ledgers, memberId } from './ledger.ts';

/** The status of a member, for `include=status`. */
interface MemberStatus {
  readonly state: 'ready' | 'pending' | 'unreachable' | 'conflict' | 'removing' | 'removed-by-owner';
  readonly revision?: number;
  readonly last_seen?: string;
  readonly reason?: string;
  /** What this manager cannot guarantee for the member. */
  readonly note?: string;
}

interface MembersView {
  readonly topology: string;
  /** Null if there are no members, as clients expect (docs/federation.md#members). */
  readonly members: readonly (Replica | (Replica & MemberStatus))[] | null;
}

/** The members of a service; with its ledger also the status of each, and members that are still leaving. */
export function membersView({ federation }: Pick<Definition, 'federation'>, ledger?: Ledger): MembersView {
  const { topology = 'none', members = [] } = federation ?? {};
  const shown = ledger ? withStatus(members, ledger) : members;
  return { topology, members: shown.length > 0 ? shown : null };
}

function withStatus(members: readonly Replica[], ledger: Ledger): (Replica & MemberStatus)[] {
  const known = new Map(ledger.members.filter((each) => !isLeaving(each)).map((each) => [memberId(each), each]));
  const current = members.map((member) => {
    if (member.type !== 'oscar') return { ...member, state: 'ready' as const };
    const entry = known.get(`${member.cluster_id}/${member.service_name}`);
    return { ...member, ...(entry ? toMemberStatus(entry, ledger) : { state: 'pending' as const }) };
  });
  const going = ledger.members
    .filter(isLeaving)
    .map((entry) => ({ ...toReplica(entry), ...toMemberStatus(entry, ledger) }));
  return [...current, ...going];
}

/** The status of each member in the ledger, by `<cluster id>/<service>`. */
function memberStates(ledger: Ledger): Map<string, MemberStatus> {
  // For a member that is ended and created again, the new entry counts.
  const last = ledger.members.toSorted((a, b) => Number(isLeaving(b)) - Number(isLeaving(a)));
  return new Map(last.map((member) => [memberId(member), toMemberStatus(member, ledger)]));
}

const isLeaving = ({ state }: LedgerMember) => state === 'leaving' || state === 'undoing';

function toMemberStatus(member: LedgerMember, { revision }: Ledger): MemberStatus {
  return {
    state: toMemberState(member, revision),
    ...(member.revision !== undefined && { revision: member.revision }),
    ...(member.lastSeen !== undefined && { last_seen: new Date(member.lastSeen).toISOString() }),
    ...(member.reason !== undefined && { reason: member.reason }),
    ...(member.kind === 'upstream' && { note: GO_NOTE }),
  };
}

/** docs/federation.md#managers-written-in-go has the whole list. */
const GO_NOTE =
  'its manager is written in Go: it knows no permits, leases or tombstones, so that a job may write results after it was ' +
  'cancelled, and the worker can be deleted only while the owner has a valid token';

function toMemberState(member: LedgerMember, revision: number): MemberStatus['state'] {
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

const toReplica = ({ clusterId, service }: LedgerMember): Replica => ({
  type: 'oscar',
  cluster_id: clusterId,
  service_name: service,
  url: '',
  ssl_verify: false,
  priority: 0,
  headers: {},
});

/** The state of a member has changed. */
export interface MemberEvent {
  readonly service: string;
  /** `<cluster id>/<service>`. */
  readonly member: string;
  /** `removed`: it is no longer a member. */
  readonly state: MemberStatus['state'] | 'removed';
  readonly reason?: string;
  readonly revision?: number;
  /** When the manager noticed the change. */
  readonly at: string;
}

interface MemberWatchDeps {
  readonly journal: Journal;
  readonly services: ServiceStore;
  readonly now: () => number;
}

/**
 * How often the ledgers are read while a client follows. A smaller value reads more often for nothing; a larger one delays
 * events. Polling is needed because any manager of the cluster may write a ledger.
 */
const POLL_INTERVAL = 3_000;

type KnownStates = ReadonlyMap<string, KnownState>;
type KnownState = Omit<MemberEvent, 'at'> & {
  /** The federation's uid. */
  readonly uid: string;
};

const stateKey = ({ uid, member }: KnownState) => `${uid} ${member}`;

/** Reports changes of member states: the current state, not every intermediate one. All followers share the same reads. */
export class MemberWatch {
  readonly #deps: MemberWatchDeps;
  readonly #every: number;
  #last: { readonly at: number; readonly known: Promise<KnownStates> } | undefined;

  constructor(deps: MemberWatchDeps, every = POLL_INTERVAL) {
    this.#deps = deps;
    this.#every = every;
  }

  /** Yields the state of all members that the principal may see, then each change, until the signal aborts. */
  async *follow(principal: Principal, signal: AbortSignal): AsyncGenerator<MemberEvent[], undefined> {
    let before: KnownStates = new Map();
    const told = new Set<string>();
    while (!signal.aborted) {
      const known = await this.#known().catch(() => before);
      const news = await this.#visible(principal, [...diffStates(before, known)], told);
      before = known;
      for (const said of news) {
        if (said.state === 'removed') told.delete(stateKey(said));
        else told.add(stateKey(said));
      }
      if (news.length > 0) yield this.#events(news);
      await pause(this.#every, undefined, { signal, ref: false }).catch(() => {});
    }
  }

  /** The service is removed before its members: a follower that got a member's state also gets its removal. */
  async #visible(principal: Principal, all: readonly KnownState[], told: ReadonlySet<string>): Promise<KnownState[]> {
    const visible = new Map<string, boolean | undefined>();
    for (const { uid, service: name } of all) {
      if (visible.has(uid)) continue;
      const service = (await this.#deps.services.get(name).catch(() => undefined))?.service;
      const isIts = service?.federation?.role === 'coordinator' && service.federation.uid === uid;
      visible.set(uid, isIts ? may(principal, 'read-federation', service) === 'yes' : undefined);
    }
    return all.filter((said) => visible.get(said.uid) ?? told.has(stateKey(said)));
  }

  #events(news: readonly KnownState[]): MemberEvent[] {
    const at = new Date(this.#deps.now()).toISOString();
    return news.map(({ uid: _, ...said }) => ({ ...said, at }));
  }

  #known(): Promise<KnownStates> {
    const now = performance.now();
    if (!this.#last || now - this.#last.at >= this.#every) this.#last = { at: now, known: this.#read() };
    return this.#last.known;
  }

  async #read(): Promise<KnownStates> {
    const known = new Map<string, KnownState>();
    for await (const said of readMemberStates(this.#deps)) known.set(stateKey(said), said);
    return known;
  }
}

/** The state of every member of every federation that this cluster coordinates. */
export async function* readMemberStates(deps: Pick<MemberWatchDeps, 'journal'>): AsyncGenerator<KnownState, undefined> {
  for await (const { ledger } of new Ledgers(deps).all()) {
    const { uid, service } = ledger;
    for (const [member, { state, reason, revision }] of memberStates(ledger)) {
      const more = { ...(reason !== undefined && { reason }), ...(revision !== undefined && { revision }) };
      yield { uid, service, member, state, ...more };
    }
  }
}

function* diffStates(before: KnownStates, now: KnownStates): Generator<KnownState> {
  for (const [id, said] of now) {
    const was = before.get(id);
    if (was?.state !== said.state || was.reason !== said.reason || was.revision !== said.revision) yield said;
  }
  for (const [id, { uid, service, member }] of before) {
    if (!now.has(id)) yield { uid, service, member, state: 'removed' };
  }
}
