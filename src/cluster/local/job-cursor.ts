import { cursorOf, expired, partsOf } from '../cursor.ts';
import type { Cursor } from '../version.ts';

/** Where a list of jobs goes on: before this job. */
export interface ListPosition {
  readonly acceptedAt: number;
  readonly seq: number;
}

/** Above every job there can be. */
const NEWEST: ListPosition = { acceptedAt: Number.MAX_VALUE, seq: 0 };

export function listCursor({ acceptedAt, seq }: ListPosition): Cursor {
  return cursorOf(acceptedAt, seq);
}

export function readListCursor(cursor: Cursor | undefined): ListPosition {
  if (cursor === undefined) return NEWEST;
  const [acceptedAt, seq] = partsOf(cursor);
  if (typeof acceptedAt !== 'number' || !Number.isSafeInteger(seq)) throw expired();
  return { acceptedAt, seq: Number(seq) };
}

export function changeCursor(store: string, change: number): Cursor {
  return cursorOf(store, change);
}

/** The number of the last change that is known; only of a cursor that this store gave. */
export function readChangeCursor(cursor: Cursor, store: string): number {
  const [from, change] = partsOf(cursor);
  if (from !== store || !Number.isSafeInteger(change)) throw expired();
  return Number(change);
}
