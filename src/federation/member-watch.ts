import { setTimeout as pause } from 'node:timers/promises';
import type { Journal, ServiceStore } from '../cluster/index.ts';
import { may, type Principal } from '../identity/index.ts';
import { Ledgers } from './ledger-store.ts';
import { type MemberStatus, memberStates } from './members-view.ts';

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

export interface MemberWatchDeps {
  readonly journal: Journal;
  readonly services: ServiceStore;
  readonly now: () => number;
}

/**
 * How often ledgers are looked at, while somebody follows. Shorter: more reads for nothing. Longer: people wait. A ledger is
 * written by whichever manager of the cluster looks after it, so that nobody can be told by who writes.
 */
const LOOK_EVERY = 3_000;

type Known = ReadonlyMap<string, Said>;
type Said = Omit<MemberEvent, 'at'> & {
  /** Of the federation. */
  readonly uid: string;
};

const idOf = ({ uid, member }: Said) => `${uid} ${member}`;

/** Tells of members whose state changes: what they are now, not every step between. All who follow share what is read. */
export class MemberWatch {
  readonly #deps: MemberWatchDeps;
  readonly #every: number;
  #last: { readonly at: number; readonly known: Promise<Known> } | undefined;

  constructor(deps: MemberWatchDeps, every = LOOK_EVERY) {
    this.#deps = deps;
    this.#every = every;
  }

  /** What all members are that this principal may see, then what changes, until the signal says so. */
  async *follow(principal: Principal, signal: AbortSignal): AsyncGenerator<MemberEvent[], undefined> {
    let before: Known = new Map();
    const told = new Set<string>();
    while (!signal.aborted) {
      const known = await this.#known().catch(() => before);
      const news = await this.#visible(principal, [...changes(before, known)], told);
      before = known;
      for (const said of news) {
        if (said.state === 'removed') told.delete(idOf(said));
        else told.add(idOf(said));
      }
      if (news.length > 0) yield this.#events(news);
      await pause(this.#every, undefined, { signal, ref: false }).catch(() => {});
    }
  }

  /** The service goes before its members do: who was told of one while it was there is told of its end. */
  async #visible(principal: Principal, all: readonly Said[], told: ReadonlySet<string>): Promise<Said[]> {
    const visible = new Map<string, boolean | undefined>();
    for (const { uid, service: name } of all) {
      if (visible.has(uid)) continue;
      const service = (await this.#deps.services.get(name).catch(() => undefined))?.service;
      const isIts = service?.federation?.role === 'coordinator' && service.federation.uid === uid;
      visible.set(uid, isIts ? may(principal, 'read-federation', service) === 'yes' : undefined);
    }
    return all.filter((said) => visible.get(said.uid) ?? told.has(idOf(said)));
  }

  #events(news: readonly Said[]): MemberEvent[] {
    const at = new Date(this.#deps.now()).toISOString();
    return news.map(({ uid: _, ...said }) => ({ ...said, at }));
  }

  #known(): Promise<Known> {
    const now = performance.now();
    if (!this.#last || now - this.#last.at >= this.#every) this.#last = { at: now, known: this.#read() };
    return this.#last.known;
  }

  async #read(): Promise<Known> {
    const known = new Map<string, Said>();
    for await (const { ledger } of new Ledgers(this.#deps).all()) {
      const { uid, service } = ledger;
      for (const [member, { state, reason, revision }] of memberStates(ledger)) {
        const more = { ...(reason !== undefined && { reason }), ...(revision !== undefined && { revision }) };
        const said = { uid, service, member, state, ...more };
        known.set(idOf(said), said);
      }
    }
    return known;
  }
}

function* changes(before: Known, now: Known): Generator<Said> {
  for (const [id, said] of now) {
    const was = before.get(id);
    if (was?.state !== said.state || was.reason !== said.reason || was.revision !== said.revision) yield said;
  }
  for (const [id, { uid, service, member }] of before) {
    if (!now.has(id)) yield { uid, service, member, state: 'removed' };
  }
}
