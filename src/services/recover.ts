import { forEachSettled } from '../lib/concurrency.ts';
import { endIntent, listIntents } from './intent.ts';
import { removeLeftovers } from './remove.ts';
import type { Services } from './services.ts';

/**
 * Completes what a manager that stopped had begun before the given time: a service that was never created, or is removed,
 * leaves no secrets behind. Returns the number of settled intents. Intents of another manager may be claimed only once they
 * are older than a reservation lives, because that manager may still be working on them. One that fails does not block the
 * others.
 */
export async function recoverServices(begunBefore: number, catalog: Services): Promise<number> {
  return forEachSettled(listIntents(catalog.journal), async ({ intent, leftovers, begun }) => {
    if (begun >= begunBefore) return false;
    const version = await catalog.journal.claim(intent.key, intent.version);
    if (version === 'busy') return false;
    const current = await catalog.services.getFresh(leftovers.name);
    if (current?.service.uid !== leftovers.uid) await removeLeftovers(leftovers, catalog);
    // The manager may have stopped before it released the reservation of the name, which now belongs to the service.
    else await catalog.services.release({ name: leftovers.name, uid: leftovers.uid });
    await endIntent({ ...intent, version }, catalog.journal);
    return true;
  });
}
