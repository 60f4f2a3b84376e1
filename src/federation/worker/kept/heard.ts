import type { Catalog } from '../../../catalog/index.ts';
import { isRace, type Journal } from '../../../cluster/index.ts';

type Store = Pick<Catalog, 'journal' | 'now'>;

/** How far what is remembered may be behind. Shorter: every worker costs more writes. Longer: silence is noticed later. */
export const HEARD_EVERY = 3_600_000;

const placeOf = (uid: string, service: string) => `heard/${uid}/${service}`;

/** What this process has noted, so that it need not even look. */
const noted = new WeakMap<Journal, Map<string, number>>();

function notedIn(journal: Journal): Map<string, number> {
  const times = noted.get(journal) ?? new Map<string, number>();
  noted.set(journal, times);
  return times;
}

/** Remembers that the coordinator of a worker has asked for something, to the hour. */
export async function noteHeard(uid: string, service: string, store: Store): Promise<void> {
  const { journal, now } = store;
  const place = placeOf(uid, service);
  const times = notedIn(journal);
  if (now() - (times.get(place) ?? Number.NEGATIVE_INFINITY) < HEARD_EVERY) return;
  times.set(place, now());
  const entry = await journal.read(place);
  const at = entry && Number(entry.state['at']);
  if (at !== undefined && now() - at < HEARD_EVERY) return void times.set(place, at);
  try {
    if (entry) await journal.advance(place, entry.version, { at: now() });
    else await journal.begin(place, { at: now() });
  } catch (error) {
    if (!isRace(error)) throw error;
  }
}

/** When it was last heard, to the hour. Where nobody has noted that, it is from now on. */
export async function heardAt(uid: string, service: string, store: Store): Promise<number> {
  const entry = await store.journal.read(placeOf(uid, service));
  if (entry) return Number(entry.state['at']);
  await noteHeard(uid, service, store);
  return store.now();
}

export async function forgetHeard(uid: string, service: string, { journal }: Store): Promise<void> {
  const place = placeOf(uid, service);
  notedIn(journal).delete(place);
  const entry = await journal.read(place);
  try {
    if (entry) await journal.finish(place, entry.version);
  } catch (error) {
    if (!isRace(error)) throw error;
  }
}
