import { allSettled } from '../../base/all-settled.ts';
import { type Ledger, type LedgerMember, memberId } from '../ledger.ts';
import { Ledgers } from '../ledger-store.ts';
import { PeerError } from '../peer/peer.ts';
import { budgetsOf, type Coordination } from './coordination.ts';
import { endMembers } from './ending.ts';
import type { Asking } from './member/asking.ts';
import { bring } from './member/bring.ts';
import { dropKeys } from './member/member-keys.ts';
import { twinOf } from './member/twin.ts';
import { problemOf } from './member/verdicts.ts';
import { within } from './member/within.ts';
import { isCurrent } from './orders.ts';
import type { Prepared } from './prepare.ts';
import { type Result, recordResults } from './results.ts';

export interface Delivery {
  readonly asking: Asking;
  /** Who stands for the keys of members that know none; those who are asked as otherwise, if it is not said. */
  readonly standIn?: Asking;
  /** Is it this member's turn? */
  readonly isDue?: (member: LedgerMember) => boolean;
  /** How many are asked at once; all, if it is not said. */
  readonly atOnce?: number;
}

/**
 * Tells all members what they are to be, and those that are to go, and writes down what came of it. A member that is
 * still being ended is made anew when that is done.
 */
export async function deliver(
  { entry: { ledger }, orders, next }: Prepared,
  { asking, standIn = asking, isDue = () => true, atOnce = Number.POSITIVE_INFINITY }: Delivery,
  deps: Coordination,
): Promise<Result[]> {
  const { create, undo } = budgetsOf(deps);
  const due = ledger.members.filter(isDue);
  const ended = await endMembers(ledger, due, undo, deps, standIn);
  const gone = new Set(ended.filter(({ kind }) => kind === 'ended').map(({ keyId }) => keyId));
  const ending = ledger.members.filter(({ state, keyId }) => state === 'undoing' && !gone.has(keyId)).map(memberId);
  const tasks = due.filter((member) => isCurrent(member) && member.state !== 'left');
  const brought = await inTurns(tasks, atOnce, async (member): Promise<Result> => {
    const { keyId } = member;
    if (ending.includes(memberId(member))) {
      return { keyId, kind: 'away', problem: new PeerError('failed', 'what was there before is still being ended') };
    }
    const twin = (instance: string) => twinOf(member, instance, ledger, deps);
    const order = orders.get(keyId);
    const task = bring({ member, order, asking, standIn, twin, next: next.get(keyId) }, deps);
    return within(create, task).catch((error): Result => ({ keyId, kind: 'away', problem: problemOf(error) }));
  });
  const results = [...ended, ...brought];
  // Before the ledger says so: a key that is not kept any more is one whose successor is known there.
  await dropKeys(
    brought.flatMap((result) => (isRekeyed(result) ? [result.keyId] : [])),
    deps,
  );
  await new Ledgers(deps).amend(ledger.uid, (current) => recordResults(current, results, deps.now()));
  auditKeys(ledger, results, deps);
  return results;
}

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
