import { StoreError, type StoreErrorCode } from '../../cluster/index.ts';

const RACES: readonly StoreErrorCode[] = ['conflict', 'exists', 'absent'];

/** Did somebody else change the record first? */
export function isRace(error: unknown): boolean {
  return error instanceof StoreError && RACES.includes(error.code);
}
