import type { Cursor, Page } from '../lib/version.ts';
import { StoreError } from './errors.ts';

/** Distinguishes our cursors from other text that a client may send. */
const MARK = 'after:';

/**
 * A listing continues after the last key of the page before, not at a position, so that it neither skips nor repeats records
 * when others are created or removed between two pages.
 */
export function cursorAfter(key: string): Cursor {
  return Buffer.from(MARK + key).toString('base64url') as Cursor;
}

/** The smallest key of the next page: the last key followed by NUL is the smallest string above it. */
export function cursorPosition(cursor: Cursor | undefined, first = ''): string {
  if (cursor === undefined) return first;
  const text = Buffer.from(cursor, 'base64url').toString();
  if (!text.startsWith(MARK))
    throw new StoreError('expired', 'this cursor is not known here: list again from the start');
  return `${text.slice(MARK.length)}\0`;
}

/** A cursor of several values. */
export const encodeCursor = (...parts: readonly unknown[]): Cursor => cursorAfter(JSON.stringify(parts));

/** The values of {@link encodeCursor}; empty for any other cursor. */
export function decodeCursor(cursor: Cursor): unknown[] {
  // Without the NUL that cursorPosition appends.
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

/** Reads all pages of a listing, and starts again from the first one if the cursor expires. */
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
