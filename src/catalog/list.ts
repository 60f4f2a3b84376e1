import { type ServiceRecord, visibleTo, visibleToAll } from '../cluster/index.ts';
import { type Admin, may, type User } from '../identity/index.ts';
import type { Catalog } from './catalog.ts';

/** Every service that this principal may read, by namespace and name. The index finds them; `may` has the last word. */
export async function listServices(
  principal: Admin | User,
  catalog: Pick<Catalog, 'services'>,
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
