import { cursorAfter, startOf } from '../../cursor.ts';
import { StoreError } from '../../errors.ts';
import type { Cursor } from '../../version.ts';
import { HIGHEST, type Position } from './ordered.ts';

/** A list goes on before this job. */
export function listCursor({ at, text }: Position): Cursor {
  return cursorAfter(JSON.stringify([at, text]));
}

export function readListCursor(cursor: Cursor | undefined): Position {
  if (cursor === undefined) return HIGHEST;
  const [at, text] = partsOf(cursor);
  if (typeof at !== 'number' || typeof text !== 'string') throw expired();
  return { at, text };
}

/** Changes go on behind this version of the API, which is one for all its objects. */
export function changeCursor(resourceVersion: string): Cursor {
  return cursorAfter(JSON.stringify([resourceVersion]));
}

export function readChangeCursor(cursor: Cursor): string {
  const [resourceVersion] = partsOf(cursor);
  if (typeof resourceVersion !== 'string' || !/^\d+$/.test(resourceVersion)) throw expired();
  return resourceVersion;
}

export function expired(): StoreError {
  return new StoreError('expired', 'this cursor is not known here, or not any more: list again from the start');
}

function partsOf(cursor: Cursor): unknown[] {
  // Without the NUL that makes it the next key, where keys are compared.
  const text = startOf(cursor).slice(0, -1);
  try {
    const parts: unknown = JSON.parse(text);
    return Array.isArray(parts) ? parts : [];
  } catch {
    return [];
  }
}
