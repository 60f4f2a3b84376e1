import type { LedgerMember } from '../../ledger.ts';
import { type Peer, PeerError, type WorkerOrder, type WorkerState } from '../../peer/peer.ts';
import type { Coordination } from '../coordination.ts';
import type { Result } from '../results.ts';
import type { Asking } from './asking.ts';
import { makeMember, readinessOf } from './make-member.ts';
import { peerOf } from './member-address.ts';
import { problemOf } from './verdicts.ts';

/** One member, what it shall be, and as whom it can be made. */
export interface Task {
  readonly member: LedgerMember;
  readonly order: WorkerOrder | undefined;
  readonly asking: Asking;
}

/** Brings a member to what it shall be, from whatever it is: made, changed, or said why not. Again: nothing changes. */
export async function bring({ member, order, asking }: Task, deps: Coordination): Promise<Result> {
  const { keyId } = member;
  if (member.endpoint === '') {
    return { keyId, kind: 'away', problem: new PeerError('failed', member.reason ?? 'its cluster is unknown') };
  }
  if (!order) {
    return { keyId, kind: 'conflict', problem: new PeerError('refused', 'its key is lost: PUT the service once') };
  }
  const peer = peerOf(member, deps);
  try {
    const state = await inspect(peer, order, member.revision !== undefined);
    return state ? await adjust(peer, order, keyId, state) : await make(peer, { member, order, asking });
  } catch (error) {
    return failed(keyId, problemOf(error));
  }
}

/**
 * A key that is not known there is a worker that is not there: what has its name is seen when it is made. One that never
 * was made with this key may have been ended with an earlier one, and is wanted again.
 */
async function inspect(peer: Peer, order: WorkerOrder, wasMade: boolean): Promise<WorkerState | undefined> {
  try {
    return await peer.inspect(order.name, order);
  } catch (error) {
    if (error instanceof PeerError && (error.code === 'refused' || (error.code === 'gone' && !wasMade)))
      return undefined;
    throw error;
  }
}

async function adjust(peer: Peer, order: WorkerOrder, keyId: string, state: WorkerState): Promise<Result> {
  const { revision, digest } = order;
  const { instance } = state;
  if (state.revision > revision) return { keyId, kind: 'ahead', revision: state.revision };
  if (state.revision < revision || state.digest !== digest) await peer.update(order, order);
  return { keyId, kind: 'made', revision, digest, instance };
}

async function make(peer: Peer, { member, order, asking }: Task & { readonly order: WorkerOrder }): Promise<Result> {
  const { keyId } = member;
  const { revision, digest } = order;
  try {
    const as = await asking(member);
    const readiness = readinessOf(await peer.probe(order.name, as), order.uid);
    await makeMember(peer, order, readiness, as);
    return { keyId, kind: 'made', revision, digest, instance: readiness.instance };
  } catch (error) {
    const problem = problemOf(error);
    if (problem.code !== 'refused') return failed(keyId, problem);
    // Where it was once made, whoever reads this learns more than that somebody may not make it.
    const isGone = member.revision !== undefined;
    const whole = isGone ? new PeerError('refused', `it is gone there, and ${problem.message}`) : problem;
    return { keyId, kind: 'missing', problem: whole };
  }
}

function failed(keyId: string, problem: PeerError): Result {
  if (problem.code === 'gone') {
    return {
      keyId,
      kind: 'left',
      problem: new PeerError('gone', 'its owner ended it there: add it again to have it back'),
    };
  }
  return { keyId, kind: problem.code === 'taken' ? 'conflict' : 'away', problem };
}
