import { type Journal, type JournalEntry, StoreError } from '../cluster/index.ts';
import { packLedger, unpackLedger } from './coordinator/pack-ledger.ts';
import type { Ledger, LedgerEntry } from './ledger.ts';

const PREFIX = 'federation/';
const keyOf = (uid: string) => `${PREFIX}${uid}`;

/** The ledgers in the journal. Every write is a compare-and-swap: who was overtaken hears `conflict`. */
export class Ledgers {
  readonly #journal: Journal;

  constructor({ journal }: { readonly journal: Journal }) {
    this.#journal = journal;
  }

  async read(uid: string): Promise<LedgerEntry | undefined> {
    const entry = await this.#journal.read(keyOf(uid));
    return entry && entryOf(entry);
  }

  async begin(ledger: Ledger): Promise<LedgerEntry> {
    const { version } = await this.#journal.begin(keyOf(ledger.uid), packLedger(ledger));
    return { ledger, version };
  }

  async advance({ version }: LedgerEntry, ledger: Ledger): Promise<LedgerEntry> {
    return { ledger, version: await this.#journal.advance(keyOf(ledger.uid), version, packLedger(ledger)) };
  }

  /** Takes it to work on it; undefined when somebody else was faster. */
  async claim({ ledger, version }: LedgerEntry): Promise<LedgerEntry | undefined> {
    const claimed = await this.#journal.claim(keyOf(ledger.uid), version);
    return claimed === 'busy' ? undefined : { ledger, version: claimed };
  }

  async finish({ ledger, version }: LedgerEntry): Promise<void> {
    await this.#journal.finish(keyOf(ledger.uid), version);
  }

  /**
   * Writes what follows from whatever the ledger is by now, however many others write. Nothing is written when it follows
   * that nothing changes. Undefined when the ledger is gone.
   */
  async amend(uid: string, change: (ledger: Ledger) => Ledger): Promise<LedgerEntry | undefined> {
    for (;;) {
      const entry = await this.read(uid);
      if (!entry) return undefined;
      const ledger = change(entry.ledger);
      if (ledger === entry.ledger) return entry;
      try {
        return await this.advance(entry, ledger);
      } catch (error) {
        if (!isOvertaken(error)) throw error;
      }
    }
  }

  async *all(): AsyncGenerator<LedgerEntry> {
    let page = await this.#journal.list(PREFIX);
    for (;;) {
      for (const entry of page.items) yield entryOf(entry);
      if (page.next === undefined) return;
      page = await this.#journal.list(PREFIX, page.next);
    }
  }
}

/** Did somebody else write first? */
export function isOvertaken(error: unknown): boolean {
  return error instanceof StoreError && (error.code === 'conflict' || error.code === 'absent');
}

function entryOf({ key, state, version }: JournalEntry): LedgerEntry {
  return { ledger: unpackLedger(key.slice(PREFIX.length), state), version };
}
