import { cursorOf, expired, partsOf } from '../../cursor.ts';
import type { Cursor } from '../../version.ts';
import { HIGHEST, type Position } from './ordered.ts';

/** A list goes on before this job. */
export function listCursor({ at, text }: Position): Cursor {
  return cursorOf(at, text);
}

export function readListCursor(cursor: Cursor | undefined): Position {
  if (cursor === undefined) return HIGHEST;
  const [at, text] = partsOf(cursor);
  if (typeof at !== 'number' || typeof text !== 'string') throw expired();
  return { at, text };
}

/** Changes go on behind this version of the API, which is one for all its objects. */
export function changeCursor(resourceVersion: string): Cursor {
  return cursorOf(resourceVersion);
}

export function readChangeCursor(cursor: Cursor): string {
  const [resourceVersion] = partsOf(cursor);
  if (typeof resourceVersion !== 'string' || !/^\d+$/.test(resourceVersion)) throw expired();
  return resourceVersion;
}
