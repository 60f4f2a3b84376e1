import { everyPage } from '../cluster/every-page.ts';
import type { Service } from '../service/index.ts';
import { markCommitted } from './coordinator/commit.ts';
import { budgetsOf, type Coordination } from './coordinator/coordination.ts';
import { carryOut, endingOf } from './coordinator/ending.ts';
import { inTurns } from './coordinator/in-turns.ts';
import type { LedgerEntry } from './ledger.ts';
import { isOvertaken, Ledgers } from './ledger-store.ts';

/** Federations that are settled at once. Members that are silent take seconds each, and the manager waits for all of this. */
const AT_ONCE = 8;

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
  await inTurns(new Ledgers(deps).all(), AT_ONCE, async (entry) => {
    const { phase, begunAt, uid } = entry.ledger;
    if (phase === 'creating' && begunAt < begunBefore) await settle(uid, () => giveUp(entry, deps));
  });
  const pages = await everyPage((cursor) => deps.services.list(cursor === undefined ? {} : { cursor }));
  await inTurns(pages.flat(), AT_ONCE, async ({ service }) => {
    const role = service.federation;
    if (role?.role !== 'coordinator' || role.committed) return;
    await settle(role.uid, () => settleUncommitted(service, role.uid, deps));
  });
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
 * A service that never took work. A ledger is begun before its service and ends after it, so one without a ledger was made
 * by somebody who had been given up meanwhile; one whose ledger is committed only has not heard of it.
 */
async function settleUncommitted(service: Service, uid: string, deps: Coordination): Promise<void> {
  const entry = await new Ledgers(deps).read(uid);
  if (!entry) await deps.own.remove(service);
  else if (entry.ledger.phase === 'active') await markCommitted(entry.ledger, deps);
}
