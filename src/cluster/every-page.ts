import { StoreError } from './errors.ts';
import type { Cursor, Page } from './version.ts';

/** All pages of a listing, one after the other; from the start again when the cursor has expired. */
export async function everyPage<T>(list: (cursor?: Cursor) => Promise<Page<T>>): Promise<T[][]> {
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
