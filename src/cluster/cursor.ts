import { StoreError } from './errors.ts';
import type { Cursor } from './version.ts';

/** Tells our cursors from whatever else a client may send back. */
const MARK = 'after:';

/**
 * A listing goes on after the last key it gave, not at a position, so that it neither skips nor repeats when records
 * come and go between two pages.
 */
export function cursorAfter(key: string): Cursor {
  return Buffer.from(MARK + key).toString('base64url') as Cursor;
}

/** The least key that may come next: with the NUL it is the least string above the last key. */
export function startOf(cursor: Cursor | undefined, first = ''): string {
  if (cursor === undefined) return first;
  const text = Buffer.from(cursor, 'base64url').toString();
  if (!text.startsWith(MARK))
    throw new StoreError('expired', 'this cursor is not known here: list again from the start');
  return `${text.slice(MARK.length)}\0`;
}
