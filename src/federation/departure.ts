import type { Journal } from '../cluster/index.ts';
import { leftByOwner } from './coordinator/member/left.ts';
import { recordResults } from './coordinator/results.ts';
import { keyIdsOf } from './ledger.ts';
import { Ledgers } from './ledger-store.ts';

interface Stores {
  readonly journal: Journal;
  readonly now: () => number;
}

/**
 * Writes down that the owner of a member ends it there, as its manager says before it does so: it is not made again until it
 * is added again. What is just being made, or is ending anyway, learns it when it next asks there.
 */
export async function noteDeparture(uid: string, keyId: string, stores: Stores): Promise<void> {
  await new Ledgers(stores).amend(uid, (ledger) => {
    const member = ledger.members.find((each) => keyIdsOf(each).includes(keyId));
    if (!member || ledger.phase !== 'active') return ledger;
    return recordResults(ledger, [leftByOwner(member.keyId)], stores.now());
  });
}
