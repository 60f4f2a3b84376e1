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

type Known = ReadonlyMap<string, { readonly service: string; readonly member: string } & Said>;
type Said = Pick<MemberEvent, 'state' | 'reason' | 'revision'>;

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
    while (!signal.aborted) {
      const known = await this.#known().catch(() => before);
      const events = await this.#visible(principal, [...changes(before, known)]);
      before = known;
      if (events.length > 0) yield events;
      await pause(this.#every, undefined, { signal, ref: false }).catch(() => {});
    }
  }

  async #visible(principal: Principal, said: readonly Omit<MemberEvent, 'at'>[]): Promise<MemberEvent[]> {
    const at = new Date(this.#deps.now()).toISOString();
    const visible = new Map<string, boolean>();
    for (const name of new Set(said.map(({ service }) => service))) {
      const record = await this.#deps.services.get(name).catch(() => undefined);
      visible.set(name, record !== undefined && may(principal, 'read-federation', record.service) === 'yes');
    }
    return said.filter(({ service }) => visible.get(service)).map((event) => ({ ...event, at }));
  }

  #known(): Promise<Known> {
    const now = performance.now();
    if (!this.#last || now - this.#last.at >= this.#every) this.#last = { at: now, known: this.#read() };
    return this.#last.known;
  }

  async #read(): Promise<Known> {
    const known = new Map<string, { service: string; member: string } & Said>();
    for await (const { ledger } of new Ledgers(this.#deps).all()) {
      for (const [member, { state, reason, revision }] of memberStates(ledger)) {
        const more = { ...(reason !== undefined && { reason }), ...(revision !== undefined && { revision }) };
        known.set(`${ledger.uid} ${member}`, { service: ledger.service, member, state, ...more });
      }
    }
    return known;
  }
}

function* changes(before: Known, now: Known): Generator<Omit<MemberEvent, 'at'>> {
  for (const [id, said] of now) {
    const was = before.get(id);
    if (was?.state !== said.state || was.reason !== said.reason || was.revision !== said.revision) yield said;
  }
  for (const [id, { service, member }] of before) {
    if (!now.has(id)) yield { service, member, state: 'removed' };
  }
}
