import type { Admin, User } from '../../identity/index.ts';
import { findRemovable, removeRecord, ServicesError } from '../../services/index.ts';
import { endWorker } from './release-worker.ts';
import { bury } from './tombstones.ts';
import { isWorker, isWorkerIn, type WorkerRecord, type Workers, WRITE_ATTEMPTS } from './worker-role.ts';

/**
 * Removes a service of this cluster at the wish of its owner, also one that is a worker: that needs nobody's consent, and
 * whoever is to be told of it is told first. What a federation has adopted is what it was, and an ordinary service again,
 * which can be removed as such: whoever ends an adoption must not lose what was there before it.
 */
export async function removeOwnWorker(
  principal: Admin | User,
  name: string,
  namespace: string | undefined,
  workers: Workers,
  tell: (worker: WorkerRecord) => Promise<void> = async () => {},
): Promise<void> {
  const { catalog } = workers;
  for (let attempt = 1; attempt <= WRITE_ATTEMPTS; attempt++) {
    const record = await findRemovable(principal, name, namespace, catalog);
    if (isWorker(record)) {
      const { uid, keyId } = record.service.federation;
      await bury(keyId, { service: name, reason: 'removed-by-owner', ending: 'undo' }, catalog);
      await tell(record);
      await endWorker({ name, ending: 'undo', keyId }, workers);
      // It may have been given another key meanwhile, which has to be ended as well.
      if (isWorkerIn(await catalog.services.get(name), uid)) continue;
      return;
    }
    if (await removeRecord(record, catalog)) return;
  }
  throw new ServicesError('contended', `"${name}" is being changed by many at once: try again`);
}
