import { CatalogError, findService, removeRecord } from '../../catalog/index.ts';
import type { Admin, User } from '../../identity/index.ts';
import { bury } from './kept/tombstones.ts';
import { endWorker } from './release.ts';
import { isWorker } from './worker-role.ts';
import { ATTEMPTS, type Workers } from './workers.ts';

/**
 * Removes a service of this cluster at the wish of its owner, also one that is a worker: that needs nobody's consent. What
 * it was before an adoption goes with it, and the coordinator, when it asks, is told not to make it again.
 */
export async function removeHere(
  principal: Admin | User,
  name: string,
  namespace: string | undefined,
  workers: Workers,
): Promise<void> {
  const { catalog } = workers;
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const record = await findService(principal, 'delete', name, catalog);
    if (principal.kind === 'admin' && namespace && namespace !== record.service.namespace) {
      throw new CatalogError('not-found', `there is no service "${name}" in the namespace ${namespace}`);
    }
    if (isWorker(record)) {
      const { keyId } = record.service.federation;
      await bury(keyId, { service: name, reason: 'removed-by-owner', ending: 'delete' }, catalog);
      return endWorker({ name, ending: 'delete', keyId }, workers);
    }
    if (await removeRecord(record, catalog)) return;
  }
  throw new CatalogError('contended', `"${name}" is being changed by many at once: try again`);
}
