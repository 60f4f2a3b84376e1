import { allSettled } from '../../base/all-settled.ts';
import type { Ledger, LedgerEntry, LedgerMember } from '../ledger.ts';
import { keyIdsOf, memberId } from '../ledger.ts';
import { isOvertaken, Ledgers } from '../ledger-store.ts';
import { PeerError } from '../peer/peer.ts';
import type { Coordination } from './coordination.ts';
import { peerOf } from './member/member-address.ts';
import { dropKeys, readKey } from './member/member-keys.ts';
import { problemOf } from './member/verdicts.ts';
import { within } from './member/within.ts';
import { type Result, recordResults } from './results.ts';

/** Who is asked this time, where not everybody is. */
export interface Turn {
  readonly isDue: (member: LedgerMember) => boolean;
  readonly note: (results: readonly Result[]) => void;
}

/** The federation is over: everything that its ledger names is to be ended. Members that are leaving go as was said. */
export function endingOf(ledger: Ledger, how: 'undo' | 'detach', now: number): Ledger {
  const members = ledger.members.map(
    (member): LedgerMember =>
      isEnding(member) ? { end: how, ...member, state: 'undoing' } : endMemberOf(member, how, now),
  );
  return { ...ledger, phase: 'ending', members };
}

const isEnding = ({ state }: LedgerMember) => state === 'undoing' || state === 'leaving';

function endMemberOf({ reason: _, ...member }: LedgerMember, how: 'undo' | 'detach', now: number): LedgerMember {
  return { ...member, state: 'undoing', end: how, since: now };
}

/**
 * Goes on with a federation that is ending: its service here, then the members, each for as long as the budget says. What
 * is left stays in the ledger, which is finished when nothing is. Again: goes on where it was.
 */
export async function carryOut(
  entry: LedgerEntry,
  budget: number,
  deps: Coordination,
  turn?: Turn,
): Promise<Ledger | undefined> {
  const { uid, service } = entry.ledger;
  const [own] = await Promise.allSettled([removeOwn(service, uid, deps)]);
  const members = entry.ledger.members.filter((member) => turn?.isDue(member) ?? true);
  const results = await endMembers({ ...entry.ledger, members }, budget, deps);
  turn?.note(results);
  const left = await new Ledgers(deps).amend(uid, (ledger) => recordResults(ledger, results, deps.now()));
  // That it cannot be removed here is no reason to let the members wait, but the ledger stays until it is.
  if (own.status === 'rejected') throw own.reason;
  if (!left || left.ledger.phase !== 'ending' || left.ledger.members.length > 0) return left?.ledger;
  try {
    await new Ledgers(deps).finish(left);
  } catch (error) {
    if (!isOvertaken(error)) throw error;
  }
  return undefined;
}

/** Removes the service of this federation here; one of the same name that is not of it stays. */
export async function removeOwn(name: string, uid: string, { services, own }: Coordination): Promise<void> {
  const current = await services.get(name);
  const role = current?.service.federation;
  if (current && role?.role === 'coordinator' && role.uid === uid) await own.remove(current.service);
}

/** Tells every member that is to be ended so, all at once. */
export async function endMembers(ledger: Ledger, budget: number, deps: Coordination): Promise<Result[]> {
  const ending = ledger.members.filter(({ state }) => state === 'undoing');
  return allSettled(ending.map((member) => endMember(ledger.uid, member, budget, deps)));
}

/** It may know either of its keys, and the request that brings the later one may still be on its way. */
async function endMember(uid: string, member: LedgerMember, budget: number, deps: Coordination): Promise<Result> {
  const { keyId } = member;
  try {
    await allSettled(keyIdsOf(member).map((id) => endKeyed(id, uid, member, budget, deps)));
    return { keyId, kind: 'ended' };
  } catch (error) {
    return { keyId, kind: 'away', problem: problemOf(error) };
  }
}

async function endKeyed(
  id: string,
  uid: string,
  member: LedgerMember,
  budget: number,
  deps: Coordination,
): Promise<void> {
  const key = await readKey(id, deps);
  // A key is kept before the first request that names it, and dropped after the last: without it nothing is there.
  if (!key) return;
  const as = { uid, member: memberId(member), key };
  try {
    await within(budget, peerOf(member, deps).remove(member.service, member.end ?? 'undo', as));
  } catch (error) {
    if (!(error instanceof PeerError && error.code === 'gone')) throw error;
  }
  await dropKeys([id], deps);
}
