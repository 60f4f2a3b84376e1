import { type Journal, type JournalEntry, StoreError, type StoreErrorCode } from '../cluster/index.ts';
import type { SecretsOwner } from './service-secrets.ts';

/**
 * What is begun here is written down first, so that `recover` can clean up after a manager that died in the middle.
 * An entry says whose secrets are concerned and when it was begun.
 */
const PREFIX = 'service/';

export type Intent = JournalEntry;

export async function beginIntent(
  verb: 'create' | 'remove',
  owner: SecretsOwner,
  journal: Journal,
  now: number,
): Promise<Intent> {
  const key = `${PREFIX}${verb}/${owner.uid}`;
  for (;;) {
    try {
      return await journal.begin(key, { ...owner, begun: now });
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

export async function* intentsOf(
  journal: Journal,
): AsyncGenerator<{ intent: Intent; owner: SecretsOwner; begun: number }> {
  let page = await journal.list(PREFIX);
  for (;;) {
    for (const intent of page.items) {
      const { begun, ...owner } = intent.state as unknown as SecretsOwner & { begun: number };
      yield { intent, owner, begun };
    }
    if (page.next === undefined) return;
    page = await journal.list(PREFIX, page.next);
  }
}

const RACES: readonly StoreErrorCode[] = ['conflict', 'exists', 'absent'];

/** Did somebody else change the record first? */
export function isRace(error: unknown): boolean {
  return error instanceof StoreError && RACES.includes(error.code);
}
