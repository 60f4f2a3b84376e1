import { forEachSettled } from '../lib/concurrency.ts';
import { endIntent, listIntents } from './intent.ts';
import { removeLeftovers } from './remove.ts';
import type { Services } from './services.ts';

/**
 * Finishes what a manager that died had begun before the given time: a service that was never made, or is gone, leaves
 * no secrets. Gives the number of intents settled. Another manager's intents may only be taken over once they are
 * older than a reservation lives, since it may be in the middle of one. One that cannot be settled now holds up no other.
 */
export async function recoverServices(begunBefore: number, catalog: Services): Promise<number> {
  return forEachSettled(listIntents(catalog.journal), async ({ intent, leftovers, begun }) => {
    if (begun >= begunBefore) return false;
    const version = await catalog.journal.claim(intent.key, intent.version);
    if (version === 'busy') return false;
    const current = await catalog.services.getFresh(leftovers.name);
    if (current?.service.uid !== leftovers.uid) await removeLeftovers(leftovers, catalog);
    // Whoever made it may have died before it let go of the name, which the service itself takes since.
    else await catalog.services.release({ name: leftovers.name, uid: leftovers.uid });
    await endIntent({ ...intent, version }, catalog.journal);
    return true;
  });
}
