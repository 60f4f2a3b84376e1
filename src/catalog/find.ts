import type { ServiceRecord } from '../cluster/index.ts';
import { type Action, may, type Principal } from '../identity/index.ts';
import type { Catalog } from './catalog.ts';
import { CatalogError, notFound } from './errors.ts';

/** The service, if this principal may do that to it. What it may not see is not there; what it may not do is said. */
export async function findService(
  principal: Principal,
  action: Action,
  name: string,
  catalog: Pick<Catalog, 'services'>,
): Promise<ServiceRecord> {
  const record = await catalog.services.get(name);
  if (!record) throw notFound(name);
  switch (may(principal, action, record.service)) {
    case 'hidden':
      throw notFound(name);
    case 'forbidden':
      throw new CatalogError('not-allowed', `only the owner of "${name}" or the administrator may do that`);
    default:
      return record;
  }
}
