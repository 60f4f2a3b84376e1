import { allSettled } from '../../lib/concurrency.ts';
import type { Secret } from '../../lib/secret.ts';
import {
  type Credential,
  type MemberKey,
  memberKeyId,
  type Peer,
  PeerError,
  type Probe,
  type WorkerOrder,
  type WorkerState,
  withinDeadline,
} from '../../peers/index.ts';
import type { ServiceRecord } from '../../ports/index.ts';
import { budgetsFor, type Coordination } from './coordination.ts';
import { type Ledger, type LedgerMember, Ledgers, memberId } from './ledger.ts';
import { type MemberCredentials, peerFor } from './member-access.ts';
import { deleteKeys } from './member-keys.ts';
import { findTwin, isCurrent } from './orders.ts';
import type { PreparedChange } from './prepare.ts';
import { endMembers } from './remove-federation.ts';
import { leftByOwner, type MemberResult, recordResults, reportHealthChanges, toPeerError } from './results.ts';

interface Delivery {
  readonly asking: MemberCredentials;
  /** Credentials for members on Go managers, which know no keys; `asking` if absent. */
  readonly standIn?: MemberCredentials;
  /** Selects the members of this delivery. */
  readonly isDue?: (member: LedgerMember) => boolean;
  /** How many members get a request concurrently; all if absent. */
  readonly atOnce?: number;
}

/**
 * Sends each member its definition, ends those that must go, and records the results. Each kind of manager is handled
 * separately: a Go manager takes seconds for what takes ours milliseconds, and the other members do not wait for it.
 */
export async function deliverToMembers(
  prepared: PreparedChange,
  delivery: Delivery,
  deps: Coordination,
): Promise<MemberResult[]> {
  const { isDue = () => true } = delivery;
  const kinds = Map.groupBy(prepared.entry.ledger.members.filter(isDue), ({ kind }) => kind);
  const told = [...kinds].map(([kind, due]) => deliverToKind(kind, due, prepared, delivery, deps));
  return (await allSettled(told)).flat();
}

/** A member that is still being ended is created again after that. */
async function deliverToKind(
  kind: LedgerMember['kind'],
  due: readonly LedgerMember[],
  { entry: { ledger }, orders, next }: PreparedChange,
  { asking, standIn = asking, atOnce = Number.POSITIVE_INFINITY }: Delivery,
  deps: Coordination,
): Promise<MemberResult[]> {
  const { create } = budgetsFor(kind, deps);
  const ending = endMembers(ledger, due, deps, { standIn });
  const announcements = new Announcements(ledger.uid, deps);
  const tasks = due.filter((member) => isCurrent(member) && member.state !== 'left');
  const bringing = mapLimited(tasks, atOnce, async (member): Promise<MemberResult> => {
    const { keyId } = member;
    const before = ledger.members.filter((other) => other.state === 'undoing' && mayPrecede(other, member));
    const gone = before.length > 0 ? endedKeyIds(await ending) : new Set();
    if (before.some((other) => memberId(other) === memberId(member) && !gone.has(other.keyId))) {
      return { keyId, kind: 'away', problem: new PeerError('failed', STILL_ENDING) };
    }
    const twin = (instance: string) => findTwin(member, instance, ledger, deps);
    const order = orders.get(keyId);
    const announce = async () => {
      if (member.unrequested) await announcements.announce(keyId);
    };
    const task = bringUpToDate({ member, order, asking, standIn, twin, announce, next: next.get(keyId) }, deps);
    return withinDeadline(create, task).catch(
      (error): MemberResult => ({ keyId, kind: 'away', problem: toPeerError(error) }),
    );
  });
  const [ended, brought] = await Promise.all([ending, bringing]);
  const results = [...ended, ...brought];
  // Before the ledger is written: a key that is missing from the store means that the member has its successor.
  await deleteKeys(
    brought.flatMap((result) => (isRekeyed(result) ? [result.keyId] : [])),
    deps,
  );
  await new Ledgers(deps).amend(ledger.uid, (current) => recordResults(current, results, deps.now()));
  auditKeys(ledger, results, deps);
  reportHealthChanges(ledger, results, deps);
  return results;
}

const endedKeyIds = (ended: readonly MemberResult[]) =>
  new Set(ended.filter(({ kind }) => kind === 'ended').map(({ keyId }) => keyId));

/**
 * Whether the ending member may still hold the name of this member. Two of our managers may be the same one under two ids. A
 * Go manager is identified by its address, so members on other Go managers do not wait for its delete.
 */
const mayPrecede = (ending: LedgerMember, member: LedgerMember) =>
  ending.kind === 'oscar' ||
  (ending.service === member.service && (ending.clusterId === member.clusterId || ending.endpoint === member.endpoint));

const isRekeyed = (result: MemberResult) => result.kind === 'made' && result.rekeyed !== undefined;

function auditKeys({ uid, service, members }: Ledger, results: readonly MemberResult[], { audit }: Coordination): void {
  for (const { keyId } of results.filter(isRekeyed)) {
    const member = members.find((each) => each.keyId === keyId);
    if (member) audit?.({ what: 'rekeyed', service, uid, member: memberId(member) });
  }
}

async function mapLimited<T, R>(items: readonly T[], atOnce: number, work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  const queue = items.entries();
  const workers = Array.from({ length: Math.min(atOnce, items.length) }, async () => {
    for (const [index, item] of queue) results[index] = await work(item);
  });
  await allSettled(workers);
  return results;
}

/** One member, its order, and the credentials to create it. */
interface Task {
  readonly member: LedgerMember;
  readonly order: WorkerOrder | undefined;
  readonly asking: MemberCredentials;
  /** Credentials for a Go manager, which knows no keys. */
  readonly standIn: MemberCredentials;
  /** Why the member is not created on the manager with this instance id. */
  readonly twin: (instance: string) => PeerError | undefined;
  /** Records in the ledger that a create request is about to be sent. Throws if the member was removed meanwhile. */
  readonly announce: () => Promise<void>;
  /** The next key; the member may already have it. */
  readonly next?: Secret | undefined;
}

type Ordered = Task & { readonly order: WorkerOrder };

/** Brings a member from any state to its order: creates it, updates it, or reports why not. Calling it again is a no-op. */
async function bringUpToDate(given: Task, deps: Coordination): Promise<MemberResult> {
  const { member, order } = given;
  const { keyId } = member;
  if (member.endpoint === '') {
    return { keyId, kind: 'away', problem: new PeerError('failed', member.reason ?? 'its cluster is unknown') };
  }
  if (!order) return keyLostResult(keyId);
  const task = { ...given, order };
  const peer = peerFor(member, deps);
  try {
    const rekeyed = await rekey(peer, task);
    if (rekeyed) return rekeyed;
    const seen = await updateWithKnownKeys(peer, task);
    return typeof seen === 'object' ? seen : await createOrRekey(peer, task, seen);
  } catch (error) {
    return failureResult(keyId, toPeerError(error));
  }
}

/**
 * Installs the next key, if there is one and credentials are available. If the member rejects that, its current key is used.
 */
async function rekey(peer: Peer, task: Ordered): Promise<MemberResult | undefined> {
  const { member, order, asking, next, twin } = task;
  // The instance id may be outdated, so the member is inspected first.
  if (member.instance !== undefined && twin(member.instance)) return undefined;
  const as = next && (await asking(member).catch(() => undefined));
  if (!next || !as) return undefined;
  try {
    const isDone = await peer.rekey({ ...order, key: next }, as);
    return isDone ? await updateWithKey(next, peer, task) : undefined;
  } catch (error) {
    if (error instanceof PeerError && ['refused', 'taken', 'stale', 'failed'].includes(error.code)) return undefined;
    throw error;
  }
}

/** If the key is rejected, the member may already have the next one: a manager stopped before it recorded the switch. */
async function updateWithKnownKeys(peer: Peer, task: Ordered): Promise<MemberResult | 'nothing' | 'refused'> {
  const { order, next } = task;
  for (const key of next ? [order.key, next] : [order.key]) {
    try {
      return (await updateWithKey(key, peer, task)) ?? 'nothing';
    } catch (error) {
      if (!(error instanceof PeerError && error.code === 'refused')) throw error;
    }
  }
  return 'refused';
}

async function updateWithKey(key: Secret, peer: Peer, task: Ordered): Promise<MemberResult | undefined> {
  const { member, order, standIn, twin } = task;
  const keyed = { ...order, key, owner: () => standIn(member) };
  const state = await inspect(peer, keyed, member.revision !== undefined);
  if (!state) return undefined;
  throwIfAny(twin(state.instance));
  const result = await updateIfNeeded(peer, keyed, member.keyId, state);
  return result.kind === 'made' && key !== order.key ? { ...result, rekeyed: memberKeyId(key) } : result;
}

function throwIfAny(problem: PeerError | undefined): void {
  if (problem) throw problem;
}

type Keyed = WorkerOrder & MemberKey;

/** A member that was never created with this key may have been ended with an earlier one and added again. */
async function inspect(peer: Peer, order: Keyed, wasMade: boolean): Promise<WorkerState | undefined> {
  try {
    return await peer.inspect(order.name, order);
  } catch (error) {
    if (error instanceof PeerError && error.code === 'gone' && !wasMade) return undefined;
    throw error;
  }
}

async function updateIfNeeded(peer: Peer, order: Keyed, keyId: string, state: WorkerState): Promise<MemberResult> {
  const { revision, digest } = order;
  const { instance } = state;
  if (state.revision > revision) return aheadResult(keyId, state.revision, revision);
  if (state.revision < revision || state.digest !== digest) await peer.update(order, order);
  return { keyId, kind: 'made', revision, digest, instance };
}

/**
 * No worker there has the key. A probe with the owner's credentials shows what has the name, and whether it can be created
 * or re-keyed.
 */
async function createOrRekey(peer: Peer, task: Ordered, seen: 'nothing' | 'refused'): Promise<MemberResult> {
  const { member, order, asking, twin, announce } = task;
  const { keyId } = member;
  const { revision, digest } = order;
  try {
    const as = await asking(member);
    const probe = await peer.probe(order.name, as, keyId);
    throwIfAny(twin(probe.instance));
    const readiness = planCreation(probe, order.uid);
    // If this manager was restored from a backup, it has neither the current key nor the current revision.
    if (probe.found === 'member' && probe.revision > revision) return aheadResult(keyId, probe.revision, revision);
    await announce();
    await createMember(peer, order, readiness, as);
    if (readiness.by === 'repeat') return (await updateWithKey(order.key, peer, task)) ?? keyLostResult(keyId);
    return { keyId, kind: 'made', revision, digest, instance: readiness.instance };
  } catch (error) {
    const problem = toPeerError(error);
    if (problem.code !== 'refused') return failureResult(keyId, problem);
    if (member.revision === undefined) return { keyId, kind: 'missing', problem };
    // A Go manager never had a key: what is missing are credentials.
    if (seen === 'refused')
      return member.kind === 'upstream' ? { keyId, kind: 'conflict', problem } : keyLostResult(keyId);
    // The member was created once, so the reason also says that it is gone.
    const whole = new PeerError('refused', `it no longer exists there, and ${problem.message}`);
    return { keyId, kind: 'missing', problem: whole };
  }
}

/** A member that claims a revision no backup can explain is not believed: all other members would have to follow it. */
function aheadResult(keyId: string, known: number, revision: number): MemberResult {
  if (known - revision <= FURTHEST_AHEAD) return { keyId, kind: 'ahead', revision: known };
  const why = `it claims revision ${known}, too far above ${revision} to be plausible: remove the member and add it again`;
  return { keyId, kind: 'conflict', problem: new PeerError('failed', why) };
}

const keyLostResult = (keyId: string): MemberResult => ({
  keyId,
  kind: 'conflict',
  problem: new PeerError('refused', 'key lost: update the service once with PUT'),
});

function failureResult(keyId: string, problem: PeerError): MemberResult {
  if (problem.code === 'gone') return leftByOwner(keyId);
  return { keyId, kind: problem.code === 'taken' ? 'conflict' : 'away', problem };
}

/**
 * How far ahead of its coordinator a member may be. With a smaller value an old backup of a service that changes every
 * minute is not recognized; with a larger one a lying member exhausts the range of numbers sooner.
 */
const FURTHEST_AHEAD = 1_000_000;

/**
 * Raises the revision above the latest one that members report: this manager was restored from a backup, and its definition
 * must count as the latest. Returns undefined if no member is ahead.
 */
export async function exceedMemberRevisions(
  { service, version }: ServiceRecord,
  results: readonly MemberResult[],
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
 * Records in the ledger that create requests are about to be sent; from then on a worker may exist. Members that arrive
 * during a write share the next one.
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

  /** Throws if this member was removed meanwhile: the ledger then states that nothing was sent. */
  async announce(keyId: string): Promise<void> {
    this.#waiting.add(keyId);
    const before = this.#writing.catch(() => undefined);
    this.#writing = before.then((written) => (this.#waiting.has(keyId) ? this.#write() : written));
    const ledger = await this.#writing;
    if (!ledger?.members.some((member) => member.keyId === keyId && isCurrent(member))) {
      throw new PeerError('failed', 'it was removed before it was created');
    }
  }

  async #write(): Promise<Ledger | undefined> {
    const told = new Set(this.#waiting);
    this.#waiting.clear();
    const entry = await this.#ledgers.amend(this.#uid, (ledger) => markRequested(ledger, told));
    return entry?.ledger;
  }
}

function markRequested(ledger: Ledger, told: ReadonlySet<string>): Ledger {
  const isFirst = (member: LedgerMember) => member.unrequested && isCurrent(member) && told.has(member.keyId);
  if (ledger.phase !== 'active' || !ledger.members.some(isFirst)) return ledger;
  const members = ledger.members.map((member) => {
    const { unrequested: _, ...known } = member;
    return isFirst(member) ? known : member;
  });
  return { ...ledger, members };
}

/** How a member can be created, according to a probe. */
export type CreationPlan =
  | { readonly by: 'create'; readonly instance: string }
  | { readonly by: 'adopt'; readonly version: string; readonly instance: string }
  /** The service is already a worker of this federation, with another key. */
  | { readonly by: 'repeat'; readonly instance: string };

/** A create waits for this, because Go managers fail if a create overlaps with the delete of its predecessor. */
export const STILL_ENDING = 'the previous service of this name is still being deleted';

/** Decides how a member can be created from what exists there; throws `taken` if it cannot. */
export function planCreation(probe: Probe, uid: string | undefined): CreationPlan {
  const { instance } = probe;
  switch (probe.found) {
    case 'nothing':
      return { by: 'create', instance };
    case 'own':
      return { by: 'adopt', version: probe.version, instance };
    case 'member':
      if (probe.uid === uid) return { by: 'repeat', instance };
      throw new PeerError('taken', 'the service of this name there is part of another federation');
    case 'taken':
      throw new PeerError('taken', 'another service there has this name: choose another');
  }
}

export async function createMember(
  peer: Peer,
  order: WorkerOrder,
  readiness: CreationPlan,
  as: Credential,
): Promise<void> {
  if (readiness.by === 'create') await peer.create(order, as);
  else if (readiness.by === 'adopt') await peer.adopt(order, readiness.version, as);
  else if (!(await peer.rekey(order, as))) throw new PeerError('stale', 'it was deleted there a moment ago');
}

/**
 * The uid of an aborted federation of this coordinator that still holds the name; the name is free once its undo is
 * complete.
 */
export async function findAbortedFederation(probe: Probe, ledgers: Ledgers): Promise<string | undefined> {
  if (probe.found !== 'member') return undefined;
  const entry = await ledgers.read(probe.uid);
  return entry?.ledger.phase === 'ending' ? probe.uid : undefined;
}
