import { CatalogError } from '../../../catalog/index.ts';
import type { Journal, JournalEntry } from '../../../cluster/index.ts';

/**
 * Marks of keys that open nothing here. An undo may overtake its create, so they have to be left; but whoever makes up a key
 * can leave one, without being anybody here.
 */

/**
 * How long such a mark stays. A create that is still on its way arrives within seconds, and the access token that it brings
 * is good for an hour at most. Shorter: less than that. Longer: more room for what strangers leave.
 */
export const STRAY_KEPT = 3_600_000;

/** Far more than creates that fail within an hour; less than what a journal notices. */
const MOST = 1_000;

/** How often they are counted; in between, this manager adds what it leaves itself. */
const COUNTED_EVERY = 60_000;

interface Counted {
  readonly at: number;
  readonly count: Promise<number>;
  /** By this manager since then. */
  added: number;
}

const counted = new WeakMap<Journal, Counted>();

/**
 * Makes room for one more, or throws. None is given up for it: a mark that was promised is kept, so that a create which
 * arrives after its undo is refused, whoever else leaves marks. An undo that is refused is not done, and comes again.
 */
export async function admitStray(
  marks: () => AsyncIterable<JournalEntry>,
  { journal, now }: { readonly journal: Journal; readonly now: () => number },
): Promise<void> {
  let last = counted.get(journal);
  if (!last || now() - last.at >= COUNTED_EVERY) {
    last = { at: now(), count: countOf(marks()), added: 0 };
    counted.set(journal, last);
    last.count.catch(() => counted.delete(journal));
  }
  last.added++;
  if ((await last.count) + last.added <= MOST) return;
  last.added--;
  throw new CatalogError(
    'contended',
    'too many keys that open nothing here were ended within an hour: try again later',
  );
}

async function countOf(marks: AsyncIterable<JournalEntry>): Promise<number> {
  let count = 0;
  for await (const { state } of marks) if (state['stray'] === true) count++;
  return count;
}
