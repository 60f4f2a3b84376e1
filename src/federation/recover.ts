import { everyPage } from '../cluster/every-page.ts';
import { markCommitted } from './coordinator/commit.ts';
import { budgetsOf, type Coordination } from './coordinator/coordination.ts';
import { carryOut, endingOf } from './coordinator/ending.ts';
import type { LedgerEntry } from './ledger.ts';
import { isOvertaken, Ledgers } from './ledger-store.ts';

/**
 * Settles what a manager that died had begun before the given time: a federation that was not committed is undone, one that
 * was ending goes on. Another manager may be in the middle of a create, so only old ones are its leftovers. What cannot be
 * done now is in the ledgers, for `reconcile`.
 */
export async function recoverFederations(begunBefore: number, deps: Coordination): Promise<void> {
  for await (const entry of new Ledgers(deps).all()) {
    const { phase, begunAt } = entry.ledger;
    if (phase === 'creating' && begunAt < begunBefore) await giveUp(entry, deps);
    if (phase === 'ending') await carryOut(entry, budgetsOf(deps).undo, deps);
  }
  await settleUncommitted(deps);
}

/** Undoes a create that nobody finishes, unless somebody does. */
export async function giveUp(entry: LedgerEntry, deps: Coordination): Promise<void> {
  try {
    const ending = await new Ledgers(deps).advance(entry, endingOf(entry.ledger, 'undo', deps.now()));
    await carryOut(ending, budgetsOf(deps).undo, deps);
  } catch (error) {
    if (!isOvertaken(error)) throw error;
  }
}

/**
 * Services that never took work. A ledger is begun before its service and ends after it, so one without a ledger was made
 * by somebody who had been given up meanwhile; one whose ledger is committed only has not heard of it.
 */
async function settleUncommitted(deps: Coordination): Promise<void> {
  const pages = await everyPage((cursor) => deps.services.list(cursor === undefined ? {} : { cursor }));
  for (const { service } of pages.flat()) {
    const role = service.federation;
    if (role?.role !== 'coordinator' || role.committed) continue;
    const entry = await new Ledgers(deps).read(role.uid);
    if (!entry) await deps.own.remove(service);
    else if (entry.ledger.phase === 'active') await markCommitted(entry.ledger, deps);
  }
}
