import type { ServiceRecord, ServiceStore } from '../../cluster/index.ts';
import type { Ledger } from '../ledger.ts';
import { isOvertaken } from '../ledger-store.ts';

function roleIn(record: ServiceRecord | undefined, uid: string) {
  const role = record?.service.federation;
  return role?.role === 'coordinator' && role.uid === uid ? role : undefined;
}

/**
 * Says in the service what its ledger says already: the federation is made, and takes work. Undefined when there is no
 * such service any more.
 */
export async function markCommitted(
  { service: name, uid }: Ledger,
  { services }: { readonly services: ServiceStore },
): Promise<ServiceRecord | undefined> {
  for (;;) {
    const known = await services.get(name);
    // Its members are ended if it is not there: that is not said by what is only known here.
    const current = roleIn(known, uid) ? known : await services.look(name);
    const role = roleIn(current, uid);
    if (!current || !role) return undefined;
    if (role.committed) return current;
    try {
      const federation = { ...role, committed: true };
      return await services.replace({ ...current.service, federation }, current.version);
    } catch (error) {
      if (!isOvertaken(error)) throw error;
    }
  }
}
