import type { Secret } from '../../../base/secret.ts';
import type { LedgerMember } from '../../ledger.ts';
import { type MemberKey, type Peer, PeerError, type WorkerOrder, type WorkerState } from '../../peer/peer.ts';
import { keyIdOf } from '../../peer/signature.ts';
import type { Coordination } from '../coordination.ts';
import { FURTHEST_AHEAD } from '../go-past.ts';
import type { Result } from '../results.ts';
import type { Asking } from './asking.ts';
import { leftByOwner } from './left.ts';
import { makeMember, readinessOf } from './make-member.ts';
import { peerOf } from './member-address.ts';
import { problemOf } from './verdicts.ts';

/** One member, what it shall be, and as whom it can be made. */
export interface Task {
  readonly member: LedgerMember;
  readonly order: WorkerOrder | undefined;
  readonly asking: Asking;
  /** Who stands for its key, where keys are not known. */
  readonly standIn: Asking;
  /** Why it is not made on a manager that calls itself so. */
  readonly twin: (instance: string) => PeerError | undefined;
  /** The key that is to follow; it may be known there already. */
  readonly next?: Secret | undefined;
}

type Ordered = Task & { readonly order: WorkerOrder };

/** Brings a member to what it shall be, from whatever it is: made, changed, or said why not. Again: nothing changes. */
export async function bring(given: Task, deps: Coordination): Promise<Result> {
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
    return failed(keyId, problemOf(error));
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
  const { member, order, asking, twin } = task;
  const { keyId } = member;
  const { revision, digest } = order;
  try {
    const as = await asking(member);
    const probe = await peer.probe(order.name, as);
    refuse(twin(probe.instance));
    const readiness = readinessOf(probe, order.uid);
    // A manager that was restored from a backup has neither the key nor the revision of by now.
    if (probe.found === 'member' && probe.revision > revision) return ahead(keyId, probe.revision, revision);
    await makeMember(peer, order, readiness, as);
    if (readiness.by === 'repeat') return (await adjustedBy(order.key, peer, task)) ?? keyLost(keyId);
    return { keyId, kind: 'made', revision, digest, instance: readiness.instance };
  } catch (error) {
    const problem = problemOf(error);
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
