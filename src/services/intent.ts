import type { Service } from '../model/service/index.ts';
import { isRace, type Journal, type JournalEntry } from '../ports/index.ts';
import { type SecretsOwner, toSecretsOwner } from './service-secrets.ts';
import { type StorageClaim, toStorageClaim } from './storage.ts';

/**
 * What is begun here is written down first, so that `recover` can clean up after a manager that died in the middle.
 * An entry says what the service has outside its definition (secrets, buckets, subscriptions) and when it was begun.
 */
const PREFIX = 'service/';

export type Intent = JournalEntry;

/** What a service may leave behind, known by ids and places alone. */
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

/** Removes the entry. If `recover` has taken it over, it does the same thing. */
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
      // An earlier version did not write down buckets elsewhere: it made none.
      const leftovers = { ...known, remote: (known as Partial<Leftovers>).remote ?? [] };
      yield { intent, leftovers, begun };
    }
    if (page.next === undefined) return;
    page = await journal.list(PREFIX, page.next);
  }
}
