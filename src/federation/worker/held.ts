import { isWorker } from './worker-role.ts';
import type { Workers } from './workers.ts';

/**
 * Is the worker of a federation still there after it was ended with this key? Then it has another: it was added again since,
 * or whoever ended it has forgotten that, having been restored from a backup.
 */
export async function isHeld(name: string, uid: string, { catalog }: Pick<Workers, 'catalog'>): Promise<boolean> {
  const record = await catalog.services.get(name);
  return isWorker(record) && record.service.federation.uid === uid;
}
