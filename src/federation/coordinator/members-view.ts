import { setTimeout as pause } from 'node:timers/promises';
import { may, type Principal } from '../../identity/index.ts';
import type { Definition, Replica } from '../../model/service/index.ts';
import type { Journal, ServiceStore } from '../../ports/index.ts';
import { type Ledger, type LedgerMember, Ledgers, memberId } from './ledger.ts';

/** What is known about a member, for `include=status`. */
interface MemberStatus {
  readonly state: 'ready' | 'pending' | 'unreachable' | 'conflict' | 'removing' | 'removed-by-owner';
  readonly revision?: number;
  readonly last_seen?: string;
  readonly reason?: string;
}

interface MembersView {
  readonly topology: string;
  /** Null when there are none, as clients expect (docs/federation.md#members). */
  readonly members: readonly (Replica | (Replica & MemberStatus))[] | null;
}

/** The members of a service; with its ledger also what became of each, and those that are still leaving. */
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

/** What is known of each member that this federation has made or is to make, by `<cluster id>/<service>`. */
function memberStates(ledger: Ledger): Map<string, MemberStatus> {
  // One that is being ended and made anew is what it becomes.
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
  };
}

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

/** A member is not what it was. */
export interface MemberEvent {
  readonly service: string;
  /** `<cluster id>/<service>`. */
  readonly member: string;
  /** `removed`: it is none any more. */
  readonly state: MemberStatus['state'] | 'removed';
  readonly reason?: string;
  readonly revision?: number;
  /** When that was noticed. */
  readonly at: string;
}

interface MemberWatchDeps {
  readonly journal: Journal;
  readonly services: ServiceStore;
  readonly now: () => number;
}

/**
 * How often ledgers are looked at, while somebody follows. Shorter: more reads for nothing. Longer: people wait. A ledger is
 * written by whichever manager of the cluster looks after it, so that nobody can be told by who writes.
 */
const POLL_INTERVAL = 3_000;

type KnownStates = ReadonlyMap<string, KnownState>;
type KnownState = Omit<MemberEvent, 'at'> & {
  /** Of the federation. */
  readonly uid: string;
};

const stateKey = ({ uid, member }: KnownState) => `${uid} ${member}`;

/** Tells of members whose state changes: what they are now, not every step between. All who follow share what is read. */
export class MemberWatch {
  readonly #deps: MemberWatchDeps;
  readonly #every: number;
  #last: { readonly at: number; readonly known: Promise<KnownStates> } | undefined;

  constructor(deps: MemberWatchDeps, every = POLL_INTERVAL) {
    this.#deps = deps;
    this.#every = every;
  }

  /** What all members are that this principal may see, then what changes, until the signal says so. */
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

  /** The service goes before its members do: who was told of one while it was there is told of its end. */
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
    for await (const { ledger } of new Ledgers(this.#deps).all()) {
      const { uid, service } = ledger;
      for (const [member, { state, reason, revision }] of memberStates(ledger)) {
        const more = { ...(reason !== undefined && { reason }), ...(revision !== undefined && { revision }) };
        const said = { uid, service, member, state, ...more };
        known.set(stateKey(said), said);
      }
    }
    return known;
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
