import { loadSecrets, ownerOfSecrets } from '../catalog/index.ts';
import type { ServiceRecord } from '../cluster/index.ts';
import type { Service } from '../service/index.ts';
import { budgetsOf, type Caller, type Coordination } from './coordinator/coordination.ts';
import { carryOut, endingOf } from './coordinator/ending.ts';
import { type Asking, asCaller, asStandIn } from './coordinator/member/asking.ts';
import { Ledgers } from './ledger-store.ts';

/**
 * Ends the federation of a service, whose owner or administrator asks for it. That it ends is written down first, with all
 * that is needed to tell the members without the definition; then the service goes, then the members hear of it, as far as
 * they answer in time. `cascade: false` leaves them as services of their own. Gives the members that are yet to be told.
 */
export async function removeFederation(
  { service }: ServiceRecord,
  { cascade, caller }: { readonly cascade: boolean; readonly caller?: Caller },
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
  const standIn = caller && (await standInOf(caller, service, deps));
  return (await carryOut(entry, budgetsOf(deps).undo, deps, standIn && { standIn }))?.members.length ?? 0;
}

async function standInOf(caller: Caller, service: Service, deps: Coordination): Promise<Asking> {
  const { credentials } = await loadSecrets(ownerOfSecrets(service), deps);
  const accounts = { clusters: service.definition.clusters, credentials };
  return asStandIn(caller.principal, asCaller(caller, accounts, deps), service, accounts, deps);
}
