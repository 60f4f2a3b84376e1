import { type Action, type Admin, may, type Principal, type User } from '../identity/index.ts';
import { type ServiceRecord, visibleTo, visibleToAll } from '../ports/index.ts';
import { notFound, ServicesError } from './errors.ts';
import type { Services } from './services.ts';

/**
 * Finds a service for an action. Throws `not-found` if the caller may not see the service, and `not-allowed` if the caller
 * may see it but not do this.
 */
export async function findService(
  principal: Principal,
  action: Action,
  name: string,
  catalog: Pick<Services, 'services'>,
): Promise<ServiceRecord> {
  const record = await catalog.services.get(name);
  if (!record) throw notFound(name);
  switch (may(principal, action, record.service)) {
    case 'hidden':
      throw notFound(name);
    case 'forbidden':
      throw new ServicesError('not-allowed', `only the owner of "${name}" or an administrator may do that`);
    default:
      return record;
  }
}

/** All services that the caller may read, by namespace and name. The index preselects them; `may` decides. */
export async function listServices(
  principal: Admin | User,
  catalog: Pick<Services, 'services'>,
): Promise<ServiceRecord[]> {
  const query = principal.kind === 'admin' ? {} : { anyOf: [visibleTo(principal.uid), visibleToAll] };
  const found: ServiceRecord[] = [];
  let page = await catalog.services.list(query);
  found.push(...page.items);
  while (page.next !== undefined) {
    page = await catalog.services.list({ ...query, cursor: page.next });
    found.push(...page.items);
  }
  return found.filter(({ service }) => may(principal, 'read', service) === 'yes');
}
