import { Secret } from '../../lib/secret.ts';
import { StoreError } from '../../ports/index.ts';
import type { Services } from '../../services/index.ts';

/**
 * Gives a cluster a new id. Needed if its store is a copy of another cluster's: two clusters with one id are treated as one.
 */
export async function resetInstanceId({ secrets, newUid }: Pick<Services, 'secrets' | 'newUid'>): Promise<string> {
  const id = newUid();
  await secrets.put('manager', 'instance', { id: new Secret(id) });
  return id;
}

/**
 * The id of this cluster, independent of its addresses. It is created once and kept in the store, so all managers of the
 * cluster share it.
 */
export async function loadInstanceId({ secrets, newUid }: Pick<Services, 'secrets' | 'newUid'>): Promise<string> {
  for (;;) {
    const kept = (await secrets.get('manager', 'instance'))?.values['id'];
    if (kept) return kept.reveal();
    try {
      await secrets.put('manager', 'instance', { id: new Secret(newUid()) }, 'absent');
    } catch (error) {
      if (!(error instanceof StoreError && error.code === 'exists')) throw error;
    }
  }
}
