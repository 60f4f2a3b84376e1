import { type Action, type Admin, may, type Principal, type User } from '../identity/index.ts';
import { type ServiceRecord, visibleTo, visibleToAll } from '../ports/index.ts';
import { notFound, ServicesError } from './errors.ts';
import type { Services } from './services.ts';

/** The service, if this principal may do that to it. What it may not see is not there; what it may not do is said. */
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
      throw new ServicesError('not-allowed', `only the owner of "${name}" or the administrator may do that`);
    default:
      return record;
  }
}

/** Every service that this principal may read, by namespace and name. The index finds them; `may` has the last word. */
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
