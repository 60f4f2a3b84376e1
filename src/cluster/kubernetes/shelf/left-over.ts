import type { ShelfEntry } from '../../shelf.ts';

/** Something on the shelf, and the object of Kubernetes without which nobody will ask for it. */
export interface Suspect {
  readonly key: string;
  readonly of: 'job' | 'attempt';
  readonly namespace: string;
  readonly name: string;
}

/** What is known to be needed still. */
export interface Needed {
  /** Keys of the events of jobs. */
  readonly events: ReadonlySet<string>;
  /** Names of attempts. */
  readonly attempts: ReadonlySet<string>;
}

/**
 * How long something may lie there before it is asked whose it is. Shorter: it may be of a job or an attempt that is only
 * being made, or the clocks of the store and the manager may differ by more. Longer: what nobody needs takes room longer.
 */
const SAFE_AGE_MS = 60 * 60_000;

/** What may have been left by something that is gone. What nobody here has put is none of it. */
export function suspectsIn(entries: readonly ShelfEntry[], needed: Needed, now: number): Suspect[] {
  return entries
    .filter(({ putAt }) => putAt < now - SAFE_AGE_MS)
    .map(({ key }) => suspectOf(key))
    .filter((suspect) => suspect !== undefined)
    .filter(({ of, key, name }) => (of === 'job' ? !needed.events.has(key) : !needed.attempts.has(name)));
}

const ROOMS: Readonly<Record<string, Suspect['of']>> = { events: 'job', attempts: 'attempt' };

/** `events/<namespace>/<job>/<version>` or `attempts/<namespace>/<attempt>/<what>`. */
function suspectOf(key: string): Suspect | undefined {
  const [room = '', namespace, name, last, ...more] = key.split('/');
  const of = ROOMS[room];
  return of && namespace && name && last && more.length === 0 ? { key, of, namespace, name } : undefined;
}
