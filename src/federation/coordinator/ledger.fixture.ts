import type { Ledger, LedgerMember } from './ledger.ts';

/** The ledger of an active federation at revision 3 with these members. */
export const ledgerOf = (...members: LedgerMember[]): Ledger => ({
  uid: 'u',
  service: 'demo',
  serviceUid: 's',
  phase: 'active',
  revision: 3,
  begunAt: 0,
  members,
});
