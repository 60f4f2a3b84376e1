import { StoreError } from './errors.ts';
import { JOURNAL_STATE_BYTES, type JournalState } from './journal.ts';

/** The state of an entry as it is stored. Throws `too-large` when it would not fit into every store. */
export function packState(key: string, state: JournalState): string {
  const packed = JSON.stringify(state);
  const size = Buffer.byteLength(packed);
  if (size <= JOURNAL_STATE_BYTES) return packed;
  const message = `the state of "${key}" in the journal has ${size} bytes, and ${JOURNAL_STATE_BYTES} is the most`;
  throw new StoreError('too-large', message);
}
