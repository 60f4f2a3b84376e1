import { type Catalog, CatalogError, isRace } from '../../../catalog/index.ts';
import type { Journal, JournalEntry } from '../../../cluster/index.ts';

/** A worker that is being made or adopted: written down first, so that whoever comes after a crash can settle it. */
export interface Work {
  readonly entry: JournalEntry;
  readonly keyId: string;
  readonly service: string;
  /** Of the order that it is made for. */
  readonly revision: number;
  readonly begun: number;
}

const PREFIX = 'worker/';

/** Throws `contended` when the same worker is being made already: the one who asks twice is to ask again. */
export async function beginWork(
  keyId: string,
  { name, revision }: { readonly name: string; readonly revision: number },
  { journal, now }: Pick<Catalog, 'journal' | 'now'>,
): Promise<Work> {
  const state = { service: name, revision, begun: now() };
  try {
    const entry = await journal.begin(`${PREFIX}${keyId}`, state);
    return { entry, keyId, ...state };
  } catch (error) {
    if (!isRace(error)) throw error;
    throw new CatalogError('contended', `"${name}" is being made for this federation already: ask again`);
  }
}

/** If somebody else has taken it over, they do the same thing. */
export async function endWork({ entry }: Work, journal: Journal): Promise<void> {
  try {
    await journal.finish(entry.key, entry.version);
  } catch (error) {
    if (!isRace(error)) throw error;
  }
}

/** Takes over what was begun before, each once. */
export async function* takeOverWork(begunBefore: number, journal: Journal): AsyncGenerator<Work> {
  let page = await journal.list(PREFIX);
  for (;;) {
    for (const entry of page.items) {
      const state = entry.state as unknown as Pick<Work, 'service' | 'revision' | 'begun'>;
      if (state.begun >= begunBefore) continue;
      const version = await journal.claim(entry.key, entry.version);
      if (version === 'busy') continue;
      yield { entry: { ...entry, version }, keyId: entry.key.slice(PREFIX.length), ...state };
    }
    if (page.next === undefined) return;
    page = await journal.list(PREFIX, page.next);
  }
}
