import type { ServiceRecord, ServiceStore } from '../../cluster/index.ts';
import type { Ledger } from '../ledger.ts';
import { isOvertaken } from '../ledger-store.ts';

/**
 * Says in the service what its ledger says already: the federation is made, and takes work. Undefined when there is no
 * such service any more.
 */
export async function markCommitted(
  { service: name, uid }: Ledger,
  { services }: { readonly services: ServiceStore },
): Promise<ServiceRecord | undefined> {
  for (;;) {
    const current = await services.get(name);
    const role = current?.service.federation;
    if (!current || role?.role !== 'coordinator' || role.uid !== uid) return undefined;
    if (role.committed) return current;
    try {
      const federation = { ...role, committed: true };
      return await services.replace({ ...current.service, federation }, current.version);
    } catch (error) {
      if (!isOvertaken(error)) throw error;
    }
  }
}
