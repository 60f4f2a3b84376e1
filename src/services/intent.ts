import type { Service } from '../model/service/index.ts';
import { isRace, type Journal, type JournalEntry } from '../ports/index.ts';
import { type SecretsOwner, toSecretsOwner } from './service-secrets.ts';
import { type StorageClaim, toStorageClaim } from './storage.ts';

/**
 * Each create and remove writes an intent first, so that `recoverServices` can clean up after a manager that stopped in the
 * middle. An intent names what the service has outside its definition (secrets, buckets, subscriptions) and when it was
 * begun.
 */
const PREFIX = 'service/';

export type Intent = JournalEntry;

/** What a service may leave behind: ids and locations, no content. */
export type Leftovers = SecretsOwner & StorageClaim;

export const toLeftovers = (service: Service): Leftovers => ({
  ...toSecretsOwner(service),
  ...toStorageClaim(service),
});

export async function beginIntent(
  verb: 'create' | 'remove',
  leftovers: Leftovers,
  journal: Journal,
  now: number,
): Promise<Intent> {
  const key = `${PREFIX}${verb}/${leftovers.uid}`;
  const subscriptions = leftovers.subscriptions.map((each) => ({ ...each }));
  const remote = leftovers.remote.map((each) => ({ ...each }));
  for (;;) {
    try {
      return await journal.begin(key, { ...leftovers, subscriptions, remote, begun: now });
    } catch (error) {
      if (!isRace(error)) throw error;
      const existing = await journal.read(key);
      if (existing) return existing;
    }
  }
}

/** Removes the intent. If recovery has claimed it, recovery removes it. */
export async function endIntent(intent: Intent, journal: Journal): Promise<void> {
  try {
    await journal.finish(intent.key, intent.version);
  } catch (error) {
    if (!isRace(error)) throw error;
  }
}

export async function* listIntents(
  journal: Journal,
): AsyncGenerator<{ intent: Intent; leftovers: Leftovers; begun: number }> {
  let page = await journal.list(PREFIX);
  for (;;) {
    for (const intent of page.items) {
      const { begun, ...known } = intent.state as unknown as Leftovers & { begun: number };
      // Intents of an earlier version have no buckets at other stores: it created none.
      const leftovers = { ...known, remote: (known as Partial<Leftovers>).remote ?? [] };
      yield { intent, leftovers, begun };
    }
    if (page.next === undefined) return;
    page = await journal.list(PREFIX, page.next);
  }
}
