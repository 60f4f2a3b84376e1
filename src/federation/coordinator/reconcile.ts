import { setTimeout as pause } from 'node:timers/promises';
import { allSettled } from '../../lib/concurrency.ts';
import { backOff } from '../../lib/retry.ts';
import { CLUSTER_ADMIN, type Service } from '../../model/service/index.ts';
import { listAllPages, type ServiceRecord } from '../../ports/index.ts';
import type { Coordination } from './coordination.ts';
import { deliverToMembers, exceedMemberRevisions } from './deliver.ts';
import { isWriteConflict, type LedgerEntry, type LedgerMember, Ledgers, markCommitted } from './ledger.ts';
import { ownerCredentials, resolveMemberAddress } from './member-access.ts';
import { prepareChange } from './prepare.ts';
import { continueRemoval, type ReconcileRound, toEndingLedger } from './remove-federation.ts';
import type { MemberResult } from './results.ts';

/** How often every member is looked at. Shorter: more requests for nothing. Longer: what was changed there stays so. */
const INTERVAL = 60_000;

/** Members of one ledger, and ledgers, that are asked at once: a manager has better things to do than this. */
const AT_ONCE = 8;

/**
 * When a create that is not committed, or a ledger without its service, has nobody behind it any more. A create has 19 s;
 * longer only delays the undo, shorter takes it away from somebody who is slow.
 */
export const ABANDONED = 60_000;

/** How long a member keeps its key, where somebody can be asked as. Shorter: more requests. Longer: a leaked key is good for longer. */
const KEY_LIFETIME = 90 * 24 * 3_600_000;

interface ReconcilerOptions {
  readonly interval?: number;
  readonly random?: () => number;
  /** Hears of what went wrong here, not at a member: those are in the ledger. */
  readonly report?: (error: unknown, uid: string) => void;
}

/** Brings members to what they should be, whatever happened: at an interval, and when it is woken or hears of them. */
export class Reconciler {
  readonly #deps: Coordination;
  readonly #options: ReconcilerOptions;
  readonly #rounds: RetrySchedule;
  readonly #woken = new Set<string>();
  /** Endpoints of managers that were silent and are heard again. */
  readonly #heard = new Set<string>();
  #stopping = new AbortController();
  #bell = Promise.withResolvers<void>();
  #running: Promise<void> | undefined;

  constructor(deps: Coordination, options: ReconcilerOptions = {}) {
    this.#deps = deps;
    this.#options = options;
    this.#rounds = new RetrySchedule(options.random);
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
  onMemberRequest(member: LedgerMember): void {
    if (!this.#rounds.canRetryNow(member.keyId, this.#deps.now())) return;
    const address = resolveMemberAddress(member, this.#deps);
    const line = this.#deps.peers.lineTo?.(address);
    if (line && line !== 'self') line.hope();
    this.onPeerRecovered(address.endpoint);
  }

  /** Whoever is at this endpoint was silent, and has answered somebody. */
  onPeerRecovered(endpoint: string): void {
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
    await mapConcurrent(new Ledgers(this.#deps).all(), AT_ONCE, async (entry) => {
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
      .filter((member) => heard.has(resolveMemberAddress(member, this.#deps).endpoint))
      .filter(({ keyId }) => this.#rounds.canRetryNow(keyId, this.#deps.now()))
      .map(({ keyId }) => keyId);
    for (const keyId of back) this.#rounds.forget(keyId);
    return new Set(back);
  }

  async #look(entry: LedgerEntry, isDue: ReconcileRound['isDue']): Promise<void> {
    const turn: ReconcileRound = { isDue, record: (results) => this.#rounds.record(results, this.#deps.now()) };
    try {
      await reconcile(entry, turn, this.#deps);
    } catch (error) {
      if (!isWriteConflict(error)) this.#options.report?.(error, entry.ledger.uid);
    }
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { interval = INTERVAL, random: chance = Math.random } = this.#options;
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

async function reconcile(entry: LedgerEntry, turn: ReconcileRound, deps: Coordination): Promise<void> {
  const { phase, begunAt } = entry.ledger;
  const isAbandoned = deps.now() - begunAt > ABANDONED;
  if (phase === 'ending') return void (await continueRemoval(entry, deps, { turn }));
  if (phase === 'creating') return isAbandoned ? abandon(entry, deps) : undefined;
  const current = await markCommitted(entry.ledger, deps);
  if (current) return converge(entry, current, turn, deps);
  // Whoever removed the service did not say so to its members.
  if (isAbandoned) await abandon(entry, deps);
}

/** A member that still knows a later revision, past which this manager went just now, has its turn another time. */
async function converge(
  entry: LedgerEntry,
  current: ServiceRecord,
  turn: ReconcileRound,
  deps: Coordination,
  wentPast = false,
): Promise<void> {
  const { ledger } = entry;
  const { service } = current;
  if (service.federation?.revision === ledger.revision && !ledger.members.some(turn.isDue)) return;
  const renew = deps.getOwnerToken !== undefined || service.owner === CLUSTER_ADMIN;
  const isOld = ({ keyedAt, since }: LedgerMember) => deps.now() - (keyedAt ?? since) > KEY_LIFETIME;
  const prepared = await prepareChange(entry, service, { renew, rekey: (member) => renew && isOld(member) }, deps);
  if (!prepared) return;
  const { credentials } = prepared;
  const asking = ownerCredentials(service, { clusters: service.definition.clusters, credentials }, deps);
  const results = await deliverToMembers(prepared, { asking, isDue: turn.isDue, atOnce: AT_ONCE }, deps);
  const past = wentPast ? undefined : await exceedMemberRevisions(current, results, deps);
  turn.record(past ? results.filter(({ kind }) => kind !== 'ahead') : results);
  const again = past && (await new Ledgers(deps).read(ledger.uid));
  if (again) await converge(again, past, turn, deps, true);
}

/** Whose turn it is: members that failed wait longer each time. Known by their keys, in memory alone. */
class RetrySchedule {
  readonly #waiting = new Map<string, { failures: number; since: number; until: number }>();
  readonly #chance: () => number;

  constructor(chance: () => number = Math.random) {
    this.#chance = chance;
  }

  isDue(keyId: string, now: number): boolean {
    return (this.#waiting.get(keyId)?.until ?? 0) <= now;
  }

  /**
   * There is a sign of life of a member. True when it waits and is worth asking now; if it failed only just now it has its
   * turn soon, so that one that fails and says a lot is not asked all the time.
   */
  canRetryNow(keyId: string, now: number): boolean {
    const waiting = this.#waiting.get(keyId);
    if (!waiting) return false;
    const soon = waiting.since + FIRST;
    if (soon <= now) return true;
    this.#waiting.set(keyId, { failures: 0, since: waiting.since, until: Math.min(soon, waiting.until) });
    return false;
  }

  /** It has its turn, as if it had never failed. */
  forget(keyId: string): void {
    this.#waiting.delete(keyId);
  }

  record(results: readonly MemberResult[], now: number): void {
    for (const { keyId, kind } of results) {
      if (kind === 'made' || kind === 'ended' || kind === 'left') this.#waiting.delete(keyId);
      else {
        const failures = (this.#waiting.get(keyId)?.failures ?? 0) + 1;
        this.#waiting.set(keyId, { failures, since: now, until: now + reconcileBackoff(failures, this.#chance()) });
      }
    }
  }
}

/** A member that was just restarted is asked again soon; shorter would only hammer it. */
const FIRST = 5_000;

/** A member that is away for days is seen again within this; longer would keep a healed federation waiting. */
const LONGEST = 15 * 60_000;

/** An interval, a tenth shorter to a tenth longer: managers that were started together do not stay together. */
export const spread = (interval: number, chance: number): number => interval * (0.9 + 0.2 * chance);

/** How long to wait after so many failures in a row; `chance` is in [0, 1), and spreads those who failed together. */
export const reconcileBackoff = (failures: number, chance: number): number =>
  backOff(failures, { first: FIRST, longest: LONGEST }, chance);

/** Federations that are settled at once. Members that are silent take seconds each, and the manager waits for all of this. */
const RECOVERED_AT_ONCE = 8;

/** Hears of what could not be settled, with the federation it is about. */
type Report = (error: unknown, uid: string) => void;

/**
 * Settles what a manager that died had begun before the given time: a federation that was not committed is undone. Another
 * manager may be in the middle of a create, so only old ones are its leftovers. What cannot be done now is in the ledgers,
 * for `reconcile`, and so is every federation that was ending. One that cannot be settled hinders no other, if somebody
 * hears of it.
 */
export async function recoverFederations(begunBefore: number, deps: Coordination, report?: Report): Promise<void> {
  const settle = async (uid: string, work: () => Promise<unknown>) => {
    try {
      await work();
    } catch (error) {
      if (!report) throw error;
      report(error, uid);
    }
  };
  await mapConcurrent(new Ledgers(deps).all(), RECOVERED_AT_ONCE, async (entry) => {
    const { phase, begunAt, uid } = entry.ledger;
    if (phase === 'creating' && begunAt < begunBefore) await settle(uid, () => abandon(entry, deps));
  });
  const pages = await listAllPages((cursor) => deps.services.list(cursor === undefined ? {} : { cursor }));
  await mapConcurrent(pages.flat(), RECOVERED_AT_ONCE, async ({ service }) => {
    const role = service.federation;
    if (role?.role !== 'coordinator' || role.committed) return;
    await settle(role.uid, () => settleUncommitted(service, role.uid, deps));
  });
}

/** Undoes a create that nobody finishes, unless somebody does. */
async function abandon(entry: LedgerEntry, deps: Coordination): Promise<void> {
  try {
    const ending = await new Ledgers(deps).advance(entry, toEndingLedger(entry.ledger, 'undo', deps.now()));
    await continueRemoval(ending, deps);
  } catch (error) {
    if (!isWriteConflict(error)) throw error;
  }
}

/**
 * A service that never took work. A ledger is begun before its service and ends after it, so one without a ledger was made
 * by somebody who had been given up meanwhile; one whose ledger is committed only has not heard of it.
 */
async function settleUncommitted(service: Service, uid: string, deps: Coordination): Promise<void> {
  const entry = await new Ledgers(deps).read(uid);
  if (!entry) await deps.own.remove(service);
  else if (entry.ledger.phase === 'active') await markCommitted(entry.ledger, deps);
}

/** Works on all items, so many at once: whoever is slow keeps one turn busy, not the others. */
async function mapConcurrent<T>(
  items: AsyncIterable<T> | Iterable<T>,
  atOnce: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const left = one(items);
  const turns = Array.from({ length: atOnce }, async () => {
    for await (const item of { [Symbol.asyncIterator]: () => ({ next: () => left.next() }) }) await work(item);
  });
  await allSettled(turns);
}

async function* one<T>(items: AsyncIterable<T> | Iterable<T>): AsyncGenerator<T, undefined> {
  yield* items;
}
