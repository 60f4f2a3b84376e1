import type { Cursor, Page } from '../lib/version.ts';
import { StoreError } from './errors.ts';

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
export function cursorPosition(cursor: Cursor | undefined, first = ''): string {
  if (cursor === undefined) return first;
  const text = Buffer.from(cursor, 'base64url').toString();
  if (!text.startsWith(MARK))
    throw new StoreError('expired', 'this cursor is not known here: list again from the start');
  return `${text.slice(MARK.length)}\0`;
}

/** A cursor that is made of several values. */
export const encodeCursor = (...parts: readonly unknown[]): Cursor => cursorAfter(JSON.stringify(parts));

/** The values of {@link encodeCursor}; none of a cursor that was not made by it. */
export function decodeCursor(cursor: Cursor): unknown[] {
  // Without the NUL that makes it the next key, where keys are compared.
  const text = cursorPosition(cursor).slice(0, -1);
  try {
    const parts: unknown = JSON.parse(text);
    return Array.isArray(parts) ? parts : [];
  } catch {
    return [];
  }
}

export function cursorExpired(): StoreError {
  return new StoreError('expired', 'this cursor is not known here, or not any more: list again from the start');
}

/** All pages of a listing, one after the other; from the start again when the cursor has expired. */
export async function listAllPages<T>(list: (cursor?: Cursor) => Promise<Page<T>>): Promise<T[][]> {
  for (;;) {
    try {
      const pages: T[][] = [];
      let cursor: Cursor | undefined;
      do {
        const { items, next } = await list(cursor);
        pages.push(items);
        cursor = next;
      } while (cursor !== undefined);
      return pages;
    } catch (error) {
      if (!(error instanceof StoreError && error.code === 'expired')) throw error;
    }
  }
}
