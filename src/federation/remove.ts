import type { ServiceRecord } from '../cluster/index.ts';
import { budgetsOf, type Coordination } from './coordinator/coordination.ts';
import { carryOut, endingOf } from './coordinator/ending.ts';
import { Ledgers } from './ledger-store.ts';

/**
 * Ends the federation of a service, whose owner or administrator asks for it. That it ends is written down first, with all
 * that is needed to tell the members without the definition; then the service goes, then the members hear of it, as far as
 * they answer in time. `cascade: false` leaves them as services of their own. Gives the members that are yet to be told.
 */
export async function removeFederation(
  { service }: ServiceRecord,
  { cascade }: { readonly cascade: boolean },
  deps: Coordination,
): Promise<number> {
  const role = service.federation;
  const how = cascade ? 'undo' : 'detach';
  const entry =
    role?.role === 'coordinator'
      ? await new Ledgers(deps).amend(role.uid, (ledger) =>
          ledger.phase === 'ending' ? ledger : endingOf(ledger, how, deps.now()),
        )
      : undefined;
  if (!entry) {
    await deps.own.remove(service);
    return 0;
  }
  return (await carryOut(entry, budgetsOf(deps).undo, deps))?.members.length ?? 0;
}
