import { Secret } from '../../lib/secret.ts';
import { StoreError } from '../../ports/index.ts';
import type { Services } from '../../services/index.ts';

/** Another name for a cluster whose store is a copy of another one's: two that have one name are taken for one. */
export async function resetInstanceId({ secrets, newUid }: Pick<Services, 'secrets' | 'newUid'>): Promise<string> {
  const id = newUid();
  await secrets.put('manager', 'instance', { id: new Secret(id) });
  return id;
}

/** Names a cluster, whatever address it is asked under: made once, and kept in its store, so that its managers share it. */
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
