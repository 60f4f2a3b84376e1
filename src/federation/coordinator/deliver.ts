import { allSettled } from '../../lib/concurrency.ts';
import type { Secret } from '../../lib/secret.ts';
import {
  keyIdOf,
  type MemberKey,
  type Peer,
  PeerError,
  type WorkerOrder,
  type WorkerState,
  withinDeadline,
} from '../../peers/index.ts';
import type { ServiceRecord } from '../../ports/index.ts';
import { budgetsFor, type Coordination } from './coordination.ts';
import { type Ledger, type LedgerMember, Ledgers, memberId } from './ledger.ts';
import { makeMember, readinessOf, STILL_ENDING } from './make-member.ts';
import { type MemberCredentials, peerOf } from './member-access.ts';
import { dropKeys } from './member-keys.ts';
import { isCurrent, twinOf } from './orders.ts';
import type { PreparedChange } from './prepare.ts';
import { endMembers } from './remove-federation.ts';
import { leftByOwner, memberProblem, type Result, recordResults, tellLooks } from './results.ts';

interface Delivery {
  readonly asking: MemberCredentials;
  /** Who stands for the keys of members that know none; those who are asked as otherwise, if it is not said. */
  readonly standIn?: MemberCredentials;
  /** Is it this member's turn? */
  readonly isDue?: (member: LedgerMember) => boolean;
  /** How many are asked at once; all, if it is not said. */
  readonly atOnce?: number;
}

/**
 * Tells all members what they are to be, and those that are to go, and writes down what came of it. Each kind by itself: a
 * manager written in Go takes seconds for what takes ours milliseconds, and nobody else waits for it.
 */
export async function deliverToMembers(
  prepared: PreparedChange,
  delivery: Delivery,
  deps: Coordination,
): Promise<Result[]> {
  const { isDue = () => true } = delivery;
  const kinds = Map.groupBy(prepared.entry.ledger.members.filter(isDue), ({ kind }) => kind);
  const told = [...kinds].map(([kind, due]) => deliverTo(kind, due, prepared, delivery, deps));
  return (await allSettled(told)).flat();
}

/** A member that is still being ended is made anew when that is done. */
async function deliverTo(
  kind: LedgerMember['kind'],
  due: readonly LedgerMember[],
  { entry: { ledger }, orders, next }: PreparedChange,
  { asking, standIn = asking, atOnce = Number.POSITIVE_INFINITY }: Delivery,
  deps: Coordination,
): Promise<Result[]> {
  const { create } = budgetsFor(kind, deps);
  const ending = endMembers(ledger, due, deps, { standIn });
  const announcements = new Announcements(ledger.uid, deps);
  const tasks = due.filter((member) => isCurrent(member) && member.state !== 'left');
  const bringing = inTurns(tasks, atOnce, async (member): Promise<Result> => {
    const { keyId } = member;
    const before = ledger.members.filter((other) => other.state === 'undoing' && mayPrecede(other, member));
    const gone = before.length > 0 ? goneBy(await ending) : new Set();
    if (before.some((other) => memberId(other) === memberId(member) && !gone.has(other.keyId))) {
      return { keyId, kind: 'away', problem: new PeerError('failed', STILL_ENDING) };
    }
    const twin = (instance: string) => twinOf(member, instance, ledger, deps);
    const order = orders.get(keyId);
    const announce = async () => {
      if (member.untold) await announcements.announce(keyId);
    };
    const task = bring({ member, order, asking, standIn, twin, announce, next: next.get(keyId) }, deps);
    return withinDeadline(create, task).catch(
      (error): Result => ({ keyId, kind: 'away', problem: memberProblem(error) }),
    );
  });
  const [ended, brought] = await Promise.all([ending, bringing]);
  const results = [...ended, ...brought];
  // Before the ledger says so: a key that is not kept any more is one whose successor is known there.
  await dropKeys(
    brought.flatMap((result) => (isRekeyed(result) ? [result.keyId] : [])),
    deps,
  );
  await new Ledgers(deps).amend(ledger.uid, (current) => recordResults(current, results, deps.now()));
  auditKeys(ledger, results, deps);
  tellLooks(ledger, results, deps);
  return results;
}

const goneBy = (ended: readonly Result[]) =>
  new Set(ended.filter(({ kind }) => kind === 'ended').map(({ keyId }) => keyId));

/**
 * May it be what has the name of this member there? Another of our managers may be the same one under another id; one that
 * is written in Go is known by its address, and those beside it do not wait while it deletes something.
 */
const mayPrecede = (ending: LedgerMember, member: LedgerMember) =>
  ending.kind === 'oscar' ||
  (ending.service === member.service && (ending.clusterId === member.clusterId || ending.endpoint === member.endpoint));

const isRekeyed = (result: Result) => result.kind === 'made' && result.rekeyed !== undefined;

function auditKeys({ uid, service, members }: Ledger, results: readonly Result[], { audit }: Coordination): void {
  for (const { keyId } of results.filter(isRekeyed)) {
    const member = members.find((each) => each.keyId === keyId);
    if (member) audit?.({ what: 'rekeyed', service, uid, member: memberId(member) });
  }
}

async function inTurns<T, R>(items: readonly T[], atOnce: number, work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  const queue = items.entries();
  const workers = Array.from({ length: Math.min(atOnce, items.length) }, async () => {
    for (const [index, item] of queue) results[index] = await work(item);
  });
  await allSettled(workers);
  return results;
}

/** One member, what it shall be, and as whom it can be made. */
interface Task {
  readonly member: LedgerMember;
  readonly order: WorkerOrder | undefined;
  readonly asking: MemberCredentials;
  /** Who stands for its key, where keys are not known. */
  readonly standIn: MemberCredentials;
  /** Why it is not made on a manager that calls itself so. */
  readonly twin: (instance: string) => PeerError | undefined;
  /** Written down before the first request that makes it. Throws when it is not to be made any more. */
  readonly announce: () => Promise<void>;
  /** The key that is to follow; it may be known there already. */
  readonly next?: Secret | undefined;
}

type Ordered = Task & { readonly order: WorkerOrder };

/** Brings a member to what it shall be, from whatever it is: made, changed, or said why not. Again: nothing changes. */
async function bring(given: Task, deps: Coordination): Promise<Result> {
  const { member, order } = given;
  const { keyId } = member;
  if (member.endpoint === '') {
    return { keyId, kind: 'away', problem: new PeerError('failed', member.reason ?? 'its cluster is unknown') };
  }
  if (!order) return keyLost(keyId);
  const task = { ...given, order };
  const peer = peerOf(member, deps);
  try {
    const rekeyed = await rekey(peer, task);
    if (rekeyed) return rekeyed;
    const seen = await adjusted(peer, task);
    return typeof seen === 'object' ? seen : await make(peer, task, seen);
  } catch (error) {
    return failed(keyId, memberProblem(error));
  }
}

/** Gives it its next key, if there is one and somebody to ask as. Whoever refuses that is told by the key it has. */
async function rekey(peer: Peer, task: Ordered): Promise<Result | undefined> {
  const { member, order, asking, next, twin } = task;
  // It may have been the same service only once: it is asked first.
  if (member.instance !== undefined && twin(member.instance)) return undefined;
  const as = next && (await asking(member).catch(() => undefined));
  if (!next || !as) return undefined;
  try {
    const isDone = await peer.rekey({ ...order, key: next }, as);
    return isDone ? await adjustedBy(next, peer, task) : undefined;
  } catch (error) {
    if (error instanceof PeerError && ['refused', 'taken', 'stale', 'failed'].includes(error.code)) return undefined;
    throw error;
  }
}

/** A key that is refused may have been followed by the next one, by somebody who could not say so any more. */
async function adjusted(peer: Peer, task: Ordered): Promise<Result | 'nothing' | 'refused'> {
  const { order, next } = task;
  for (const key of next ? [order.key, next] : [order.key]) {
    try {
      return (await adjustedBy(key, peer, task)) ?? 'nothing';
    } catch (error) {
      if (!(error instanceof PeerError && error.code === 'refused')) throw error;
    }
  }
  return 'refused';
}

async function adjustedBy(key: Secret, peer: Peer, task: Ordered): Promise<Result | undefined> {
  const { member, order, standIn, twin } = task;
  const keyed = { ...order, key, owner: () => standIn(member) };
  const state = await inspect(peer, keyed, member.revision !== undefined);
  if (!state) return undefined;
  refuse(twin(state.instance));
  const result = await adjust(peer, keyed, member.keyId, state);
  return result.kind === 'made' && key !== order.key ? { ...result, rekeyed: keyIdOf(key) } : result;
}

function refuse(problem: PeerError | undefined): void {
  if (problem) throw problem;
}

type Keyed = WorkerOrder & MemberKey;

/** One that never was made with this key may have been ended with an earlier one, and is wanted again. */
async function inspect(peer: Peer, order: Keyed, wasMade: boolean): Promise<WorkerState | undefined> {
  try {
    return await peer.inspect(order.name, order);
  } catch (error) {
    if (error instanceof PeerError && error.code === 'gone' && !wasMade) return undefined;
    throw error;
  }
}

async function adjust(peer: Peer, order: Keyed, keyId: string, state: WorkerState): Promise<Result> {
  const { revision, digest } = order;
  const { instance } = state;
  if (state.revision > revision) return ahead(keyId, state.revision, revision);
  if (state.revision < revision || state.digest !== digest) await peer.update(order, order);
  return { keyId, kind: 'made', revision, digest, instance };
}

/** Nothing there answers to the key: what has its name is seen by who may make it, or give it this key again. */
async function make(peer: Peer, task: Ordered, seen: 'nothing' | 'refused'): Promise<Result> {
  const { member, order, asking, twin, announce } = task;
  const { keyId } = member;
  const { revision, digest } = order;
  try {
    const as = await asking(member);
    const probe = await peer.probe(order.name, as);
    refuse(twin(probe.instance));
    const readiness = readinessOf(probe, order.uid);
    // A manager that was restored from a backup has neither the key nor the revision of by now.
    if (probe.found === 'member' && probe.revision > revision) return ahead(keyId, probe.revision, revision);
    await announce();
    await makeMember(peer, order, readiness, as);
    if (readiness.by === 'repeat') return (await adjustedBy(order.key, peer, task)) ?? keyLost(keyId);
    return { keyId, kind: 'made', revision, digest, instance: readiness.instance };
  } catch (error) {
    const problem = memberProblem(error);
    if (problem.code !== 'refused') return failed(keyId, problem);
    if (member.revision === undefined) return { keyId, kind: 'missing', problem };
    // It never had a key: what is missing is somebody to ask as.
    if (seen === 'refused') return member.kind === 'upstream' ? { keyId, kind: 'conflict', problem } : keyLost(keyId);
    // Where it was once made, whoever reads this learns more than that somebody may not make it.
    const whole = new PeerError('refused', `it is gone there, and ${problem.message}`);
    return { keyId, kind: 'missing', problem: whole };
  }
}

/** Whoever says more than any backup can explain would have all the others follow. */
function ahead(keyId: string, known: number, revision: number): Result {
  if (known - revision <= FURTHEST_AHEAD) return { keyId, kind: 'ahead', revision: known };
  const why = `it claims revision ${known}, too far past ${revision} to be believed: remove it, and add it again`;
  return { keyId, kind: 'conflict', problem: new PeerError('failed', why) };
}

const keyLost = (keyId: string): Result => ({
  keyId,
  kind: 'conflict',
  problem: new PeerError('refused', 'key lost: PUT the service once'),
});

function failed(keyId: string, problem: PeerError): Result {
  if (problem.code === 'gone') return leftByOwner(keyId);
  return { keyId, kind: problem.code === 'taken' ? 'conflict' : 'away', problem };
}

/**
 * How far ahead of its coordinator a member is believed to be. Less: a backup of a service that changes every minute may be
 * too old after a while. More: members that lie are sooner where numbers end.
 */
const FURTHEST_AHEAD = 1_000_000;

/**
 * Goes past the latest revision that members know: this manager was restored from a backup, and what it says now is the
 * latest. Undefined when no member knows a later one.
 */
export async function goPast(
  { service, version }: ServiceRecord,
  results: readonly Result[],
  { services, audit }: Pick<Coordination, 'services' | 'audit'>,
): Promise<ServiceRecord | undefined> {
  const furthest = Math.max(0, ...results.map((result) => (result.kind === 'ahead' ? result.revision : 0)));
  const role = service.federation;
  if (furthest === 0 || role?.role !== 'coordinator') return undefined;
  const federation = { ...role, revision: furthest + 1 };
  const replaced = await services.replace({ ...service, federation }, version);
  const { uid, revision } = federation;
  audit?.({ what: 'restored', service: service.definition.name, uid, revision });
  return replaced;
}

/**
 * Writes down that members are about to be told to be made, before they are: from then on something may be there. Those that
 * come to it while the ledger is being written share the next write.
 */
class Announcements {
  readonly #uid: string;
  readonly #ledgers: Ledgers;
  readonly #waiting = new Set<string>();
  #writing: Promise<Ledger | undefined> = Promise.resolve(undefined);

  constructor(uid: string, deps: Pick<Coordination, 'journal'>) {
    this.#uid = uid;
    this.#ledgers = new Ledgers(deps);
  }

  /** Throws when this member is not to be made any more: somebody has removed it, and knows that nothing was sent. */
  async announce(keyId: string): Promise<void> {
    this.#waiting.add(keyId);
    const before = this.#writing.catch(() => undefined);
    this.#writing = before.then((written) => (this.#waiting.has(keyId) ? this.#write() : written));
    const ledger = await this.#writing;
    if (!ledger?.members.some((member) => member.keyId === keyId && isCurrent(member))) {
      throw new PeerError('failed', 'it was removed before it was made');
    }
  }

  async #write(): Promise<Ledger | undefined> {
    const told = new Set(this.#waiting);
    this.#waiting.clear();
    const entry = await this.#ledgers.amend(this.#uid, (ledger) => withTold(ledger, told));
    return entry?.ledger;
  }
}

function withTold(ledger: Ledger, told: ReadonlySet<string>): Ledger {
  const isFirst = (member: LedgerMember) => member.untold && isCurrent(member) && told.has(member.keyId);
  if (ledger.phase !== 'active' || !ledger.members.some(isFirst)) return ledger;
  const members = ledger.members.map((member) => {
    const { untold: _, ...known } = member;
    return isFirst(member) ? known : member;
  });
  return { ...ledger, members };
}
