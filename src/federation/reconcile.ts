import { setTimeout as pause } from 'node:timers/promises';
import type { ServiceRecord } from '../cluster/index.ts';
import { CLUSTER_ADMIN } from '../service/index.ts';
import { markCommitted } from './coordinator/commit.ts';
import { budgetsOf, type Coordination } from './coordinator/coordination.ts';
import { deliver } from './coordinator/deliver.ts';
import { carryOut, type Turn } from './coordinator/ending.ts';
import { goPast } from './coordinator/go-past.ts';
import { inTurns } from './coordinator/in-turns.ts';
import { asOwner } from './coordinator/member/asking.ts';
import { spread } from './coordinator/member/backoff.ts';
import { addressOf } from './coordinator/member/member-address.ts';
import { Rounds } from './coordinator/member/rounds.ts';
import { prepare } from './coordinator/prepare.ts';
import type { LedgerEntry, LedgerMember } from './ledger.ts';
import { isOvertaken, Ledgers } from './ledger-store.ts';
import { giveUp } from './recover.ts';

/** How often every member is looked at. Shorter: more requests for nothing. Longer: what was changed there stays so. */
const INTERVAL = 60_000;

/** Members of one ledger, and ledgers, that are asked at once: a manager has better things to do than this. */
const AT_ONCE = 8;

/**
 * When a create that is not committed, or a ledger without its service, has nobody behind it any more. A create has 14 s;
 * longer only delays the undo, shorter takes it away from somebody who is slow.
 */
export const ABANDONED = 60_000;

/** How long a member keeps its key, where somebody can be asked as. Shorter: more requests. Longer: a leaked key is good for longer. */
const KEY_LIFETIME = 90 * 24 * 3_600_000;

export interface ReconcilerOptions {
  readonly interval?: number;
  readonly chance?: () => number;
  /** Hears of what went wrong here, not at a member: those are in the ledger. */
  readonly report?: (error: unknown, uid: string) => void;
}

/** Brings members to what they should be, whatever happened: at an interval, and when it is woken or hears of them. */
export class Reconciler {
  readonly #deps: Coordination;
  readonly #options: ReconcilerOptions;
  readonly #rounds: Rounds;
  readonly #woken = new Set<string>();
  /** Endpoints of managers that were silent and are heard again. */
  readonly #heard = new Set<string>();
  #stopping = new AbortController();
  #bell = Promise.withResolvers<void>();
  #running: Promise<void> | undefined;

  constructor(deps: Coordination, options: ReconcilerOptions = {}) {
    this.#deps = deps;
    this.#options = options;
    this.#rounds = new Rounds(options.chance);
  }

  start(): void {
    this.#stopping = new AbortController();
    this.#running ??= this.#run(this.#stopping.signal);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
    this.#running = undefined;
  }

  /** Looks at this federation now, also at members that have failed before. */
  wake(uid: string): void {
    this.#woken.add(uid);
    this.#bell.resolve();
  }

  /** The manager of this member has asked for something: if it is waited for, it is worth another try. */
  heardFrom(member: LedgerMember): void {
    if (!this.#rounds.isBack(member.keyId, this.#deps.now())) return;
    const address = addressOf(member, this.#deps);
    const line = this.#deps.peers.lineTo?.(address);
    if (line && line !== 'self') line.hope();
    this.answersAgain(address.endpoint);
  }

  /** Whoever is at this endpoint was silent, and has answered somebody. */
  answersAgain(endpoint: string): void {
    this.#heard.add(endpoint);
    this.#bell.resolve();
  }

  /** Looks once at every federation whose members have their turn. */
  pass(): Promise<void> {
    return this.#visit('all');
  }

  /** `heard`: only at what is woken, and at members that wait and are heard again. */
  async #visit(whom: 'all' | 'heard'): Promise<void> {
    const woken = new Set(this.#woken);
    const heard = new Set(this.#heard);
    this.#woken.clear();
    this.#heard.clear();
    await inTurns(new Ledgers(this.#deps).all(), AT_ONCE, async (entry) => {
      const back = this.#takeBack(entry, heard);
      const isWoken = woken.has(entry.ledger.uid);
      if (whom === 'heard' && !isWoken && back.size === 0) return;
      await this.#look(entry, ({ keyId }) => {
        if (isWoken || back.has(keyId)) return true;
        return whom === 'all' && this.#rounds.isDue(keyId, this.#deps.now());
      });
    });
  }

  /** The members that wait, and whose managers are heard again: they wait no longer. */
  #takeBack({ ledger }: LedgerEntry, heard: ReadonlySet<string>): ReadonlySet<string> {
    if (heard.size === 0) return heard;
    const back = ledger.members
      .filter((member) => heard.has(addressOf(member, this.#deps).endpoint))
      .filter(({ keyId }) => this.#rounds.isBack(keyId, this.#deps.now()))
      .map(({ keyId }) => keyId);
    for (const keyId of back) this.#rounds.forget(keyId);
    return new Set(back);
  }

  async #look(entry: LedgerEntry, isDue: Turn['isDue']): Promise<void> {
    const turn: Turn = { isDue, note: (results) => this.#rounds.note(results, this.#deps.now()) };
    try {
      await reconcile(entry, turn, this.#deps);
    } catch (error) {
      if (!isOvertaken(error)) this.#options.report?.(error, entry.ledger.uid);
    }
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { interval = INTERVAL, chance = Math.random } = this.#options;
    while (!signal.aborted) {
      await this.pass().catch((error) => this.#options.report?.(error, ''));
      await this.#attend(pause(spread(interval, chance()), 'over' as const, { signal, ref: false }));
    }
  }

  /** Answers the bell until the interval is over. */
  async #attend(interval: Promise<'over'>): Promise<void> {
    const over = interval.catch(() => 'over' as const);
    for (;;) {
      this.#bell = Promise.withResolvers();
      const isCalled = this.#woken.size + this.#heard.size > 0;
      if (isCalled) await this.#visit('heard').catch((error) => this.#options.report?.(error, ''));
      const next = isCalled ? undefined : this.#bell.promise;
      if ((await Promise.race([over, next])) === 'over') return;
    }
  }
}

async function reconcile(entry: LedgerEntry, turn: Turn, deps: Coordination): Promise<void> {
  const { phase, begunAt } = entry.ledger;
  const isAbandoned = deps.now() - begunAt > ABANDONED;
  if (phase === 'ending') return void (await carryOut(entry, budgetsOf(deps).undo, deps, { turn }));
  if (phase === 'creating') return isAbandoned ? giveUp(entry, deps) : undefined;
  const current = await markCommitted(entry.ledger, deps);
  if (current) return converge(entry, current, turn, deps);
  // Whoever removed the service did not say so to its members.
  if (isAbandoned) await giveUp(entry, deps);
}

/** A member that still knows a later revision, past which this manager went just now, has its turn another time. */
async function converge(
  entry: LedgerEntry,
  current: ServiceRecord,
  turn: Turn,
  deps: Coordination,
  wentPast = false,
): Promise<void> {
  const { ledger } = entry;
  const { service } = current;
  if (service.federation?.revision === ledger.revision && !ledger.members.some(turn.isDue)) return;
  const renew = deps.mint !== undefined || service.owner === CLUSTER_ADMIN;
  const isOld = ({ keyedAt, since }: LedgerMember) => deps.now() - (keyedAt ?? since) > KEY_LIFETIME;
  const prepared = await prepare(entry, service, { renew, rekey: (member) => renew && isOld(member) }, deps);
  if (!prepared) return;
  const { credentials } = prepared;
  const asking = asOwner(service, { clusters: service.definition.clusters, credentials }, deps);
  const results = await deliver(prepared, { asking, isDue: turn.isDue, atOnce: AT_ONCE }, deps);
  const past = wentPast ? undefined : await goPast(current, results, deps);
  turn.note(past ? results.filter(({ kind }) => kind !== 'ahead') : results);
  const again = past && (await new Ledgers(deps).read(ledger.uid));
  if (again) await converge(again, past, turn, deps, true);
}
