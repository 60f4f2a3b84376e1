import { setTimeout as pause } from 'node:timers/promises';
import { mapConcurrent } from '../../lib/concurrency.ts';
import { backoffDelay } from '../../lib/retry.ts';
import { CLUSTER_ADMIN, type Service } from '../../model/service/index.ts';
import { listAllPages, type ServiceRecord } from '../../ports/index.ts';
import type { Coordination } from './coordination.ts';
import { deliverToMembers, exceedMemberRevisions } from './deliver.ts';
import { isWriteConflict, type LedgerEntry, type LedgerMember, Ledgers, markCommitted } from './ledger.ts';
import { ownerCredentials, resolveMemberAddress } from './member-access.ts';
import { prepareChange } from './prepare.ts';
import { continueRemoval, type ReconcileRound, toEndingLedger } from './remove-federation.ts';
import type { MemberResult } from './results.ts';

/**
 * How often every member is checked. A smaller value sends more requests for nothing; a larger one leaves changes on
 * members' clusters uncorrected for longer.
 */
const INTERVAL = 60_000;

/**
 * Concurrent requests for one ledger, and concurrent ledgers. A larger value takes capacity from user requests; a smaller
 * one makes a pass slower.
 */
const AT_ONCE = 8;

/**
 * The age at which an uncommitted create, or a ledger without its service, counts as abandoned. A create takes up to 19 s. A
 * larger value only delays the undo; a smaller one undoes a create that is slow.
 */
export const ABANDONED = 60_000;

/**
 * How long a member keeps its key, if credentials for a re-key are available. A smaller value sends more requests; a larger
 * one keeps a leaked key valid for longer.
 */
const KEY_LIFETIME = 90 * 24 * 3_600_000;

interface ReconcilerOptions {
  readonly interval?: number;
  readonly random?: () => number;
  /** Called with errors of this manager. Errors of members are in the ledger. */
  readonly report?: (error: unknown, uid: string) => void;
}

/** Brings members up to date: at an interval, when it is woken, and when a silent member sends a request. */
export class Reconciler {
  readonly #deps: Coordination;
  readonly #options: ReconcilerOptions;
  readonly #rounds: RetrySchedule;
  readonly #woken = new Set<string>();
  /** Endpoints of managers that were silent and have answered again. */
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

  /** Reconciles this federation now, including members that are waiting for a retry. */
  wake(uid: string): void {
    this.#woken.add(uid);
    this.#bell.resolve();
  }

  /** Called for every request of a member. If the member is waiting for a retry, it is retried now. */
  onMemberRequest(member: LedgerMember): void {
    if (!this.#rounds.canRetryNow(member.keyId, this.#deps.now())) return;
    const address = resolveMemberAddress(member, this.#deps);
    const line = this.#deps.peers.connectionTo?.(address);
    if (line && line !== 'self') line.retryNow();
    this.onPeerRecovered(address.endpoint);
  }

  /** Called when the manager at this endpoint answers again after it was silent. */
  onPeerRecovered(endpoint: string): void {
    this.#heard.add(endpoint);
    this.#bell.resolve();
  }

  /** Reconciles every federation once, with the members that are due. */
  pass(): Promise<void> {
    return this.#visit('all');
  }

  /** `heard`: only woken federations, and waiting members whose managers answer again. */
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

  /** Ends the waiting of members whose managers answer again, and returns their key ids. */
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
    const { interval = INTERVAL, random = Math.random } = this.#options;
    while (!signal.aborted) {
      await this.pass().catch((error) => this.#options.report?.(error, ''));
      await this.#attend(pause(spread(interval, random()), 'over' as const, { signal, ref: false }));
    }
  }

  /** Handles wake-ups until the interval is over. */
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
  // The service was removed without ending its members.
  if (isAbandoned) await abandon(entry, deps);
}

/**
 * Brings the members of an active federation up to date. If members report a later revision, the revision is raised above it
 * once, and the members are updated again.
 */
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

/** When each member is due: members that failed wait longer each time. By key id, in memory only. */
class RetrySchedule {
  readonly #waiting = new Map<string, { failures: number; since: number; until: number }>();
  readonly #random: () => number;

  constructor(random: () => number = Math.random) {
    this.#random = random;
  }

  isDue(keyId: string, now: number): boolean {
    return (this.#waiting.get(keyId)?.until ?? 0) <= now;
  }

  /**
   * Called when a member shows a sign of life. Returns true if the member is waiting and can be retried now. If it failed
   * only just now, it is scheduled for soon instead, so that a member that fails and sends many requests is not retried
   * continuously.
   */
  canRetryNow(keyId: string, now: number): boolean {
    const waiting = this.#waiting.get(keyId);
    if (!waiting) return false;
    const soon = waiting.since + FIRST;
    if (soon <= now) return true;
    this.#waiting.set(keyId, { failures: 0, since: waiting.since, until: Math.min(soon, waiting.until) });
    return false;
  }

  /** Makes the member due, as if it had never failed. */
  forget(keyId: string): void {
    this.#waiting.delete(keyId);
  }

  record(results: readonly MemberResult[], now: number): void {
    for (const { keyId, kind } of results) {
      if (kind === 'made' || kind === 'ended' || kind === 'left') this.#waiting.delete(keyId);
      else {
        const failures = (this.#waiting.get(keyId)?.failures ?? 0) + 1;
        this.#waiting.set(keyId, { failures, since: now, until: now + reconcileBackoff(failures, this.#random()) });
      }
    }
  }
}

/** The first retry. A larger value delays a member that was just restarted; a smaller one only loads it. */
const FIRST = 5_000;

/**
 * The longest wait between retries. A larger value delays the recovery of a federation; a smaller one sends more requests to
 * a member that is down for days.
 */
const LONGEST = 15 * 60_000;

/** Varies an interval by up to a tenth, so that managers that were started together do not stay in step. */
export const spread = (interval: number, random: number): number => interval * (0.9 + 0.2 * random);

/** How long to wait after so many failures in a row. `random` is in [0, 1), and spreads members that failed together. */
export const reconcileBackoff = (failures: number, random: number): number =>
  backoffDelay(failures, { first: FIRST, longest: LONGEST }, random);

/**
 * Federations that are recovered concurrently. Silent members take seconds each, and the start of the manager waits for all
 * of them; a larger value opens more connections at once.
 */
const RECOVERED_AT_ONCE = 8;

/** Called with errors of the recovery, and the uid of the federation. */
type Report = (error: unknown, uid: string) => void;

/**
 * Recovers from a manager that stopped: a federation whose create began before the given time and was not committed is
 * undone. Another manager may be in the middle of a create, so younger ones are left alone. What cannot be undone now stays
 * in the ledger for the reconciler, as does every federation that is ending. With `report`, a failure does not block the
 * other federations.
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
  await new Ledgers(deps).removeUnusedPages(deps.now());
  const pages = await listAllPages((cursor) => deps.services.list(cursor === undefined ? {} : { cursor }));
  await mapConcurrent(pages.flat(), RECOVERED_AT_ONCE, async ({ service }) => {
    const role = service.federation;
    if (role?.role !== 'coordinator' || role.committed) return;
    await settle(role.uid, () => settleUncommitted(service, role.uid, deps));
  });
}

/** Undoes an abandoned create, unless another manager changes it first. */
async function abandon(entry: LedgerEntry, deps: Coordination): Promise<void> {
  try {
    const ending = await new Ledgers(deps).advance(entry, toEndingLedger(entry.ledger, 'undo', deps.now()));
    await continueRemoval(ending, deps);
  } catch (error) {
    if (!isWriteConflict(error)) throw error;
  }
}

/**
 * Settles a service that is not committed. A ledger is begun before its service and ends after it. So a service without a
 * ledger belongs to a create that was aborted; if the ledger is active, the commit was only not copied to the service.
 */
async function settleUncommitted(service: Service, uid: string, deps: Coordination): Promise<void> {
  const entry = await new Ledgers(deps).read(uid);
  if (!entry) await deps.own.remove(service);
  else if (entry.ledger.phase === 'active') await markCommitted(entry.ledger, deps);
}
