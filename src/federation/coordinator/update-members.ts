import { setTimeout as pause } from 'node:timers/promises';
import type { Service } from '../../model/service/index.ts';
import type { ServiceRecord } from '../../ports/index.ts';
import type { Coordination } from './coordination.ts';
import { deliverToMembers, exceedMemberRevisions } from './deliver.ts';
import { isWriteConflict, type LedgerEntry, type LedgerMember, Ledgers } from './ledger.ts';
import type { MemberCredentials } from './member-access.ts';
import { hasUnexplained, listPending, type PendingMember } from './orders.ts';
import { type KeyRenewal, prepareChange } from './prepare.ts';
import type { MemberResult } from './results.ts';

/** How a change is sent to the members. */
export interface MembersUpdate {
  readonly asking: MemberCredentials;
  /** Credentials for members on Go managers, which know no keys. */
  readonly standIn: MemberCredentials;
  readonly keys: KeyRenewal;
}

export interface UpdatedMembers {
  readonly record: ServiceRecord;
  /** Members that do not have the change yet; the reconciler retries them. */
  readonly pending: readonly PendingMember[];
}

/** Enough for any burst of writers to one service. More failures than this mean a fault, not contention. */
const ATTEMPTS = 8;

/** The longest pause before the next attempt. */
const LONGEST_PAUSE = 50;

/**
 * Sends a stored change to all members. Resolves to the record that is stored in the end, and the members that do not have
 * it. If this caller keeps losing races, the definition is stored nevertheless and the reconciler sends it. A member that is
 * pending without a reason is retried: another manager changed it concurrently, and the result was recorded for a key that
 * it no longer has. If a member has a later revision, all members that answered are updated once more.
 */
export async function updateMembers(
  uid: string,
  stored: ServiceRecord,
  change: MembersUpdate,
  deps: Coordination,
): Promise<UpdatedMembers> {
  const ledgers = new Ledgers(deps);
  let record = stored;
  let silent: ReadonlySet<string> = new Set();
  for (let attempt = 1; ; attempt++) {
    let isTold = false;
    try {
      const results = await updateOnce(uid, record.service, change, silent, deps);
      isTold = results !== undefined;
      const past = record === stored && results ? await exceedMemberRevisions(record, results, deps) : undefined;
      if (past && results) {
        record = past;
        silent = new Set(results.flatMap(({ kind, keyId }) => (kind === 'away' ? [keyId] : [])));
        continue;
      }
    } catch (error) {
      if (!isWriteConflict(error)) throw error;
    }
    const told = await ledgers.read(uid);
    if (!told) return { record, pending: [] };
    const isOver = isOlder(record.service, told) || (isTold && !hasUnexplained(told.ledger));
    if (isOver || attempt >= ATTEMPTS) return { record, pending: listPending(told.ledger) };
    await pause(Math.random() * LONGEST_PAUSE);
  }
}

/** Members that did not answer before are skipped. Returns undefined if another manager was faster. */
async function updateOnce(
  uid: string,
  service: Service,
  { asking, standIn, keys }: MembersUpdate,
  silent: ReadonlySet<string>,
  deps: Coordination,
): Promise<MemberResult[] | undefined> {
  const entry = await new Ledgers(deps).read(uid);
  if (!entry || entry.ledger.phase !== 'active' || isOlder(service, entry)) return [];
  const prepared = await prepareChange(entry, service, keys, deps);
  const isDue = ({ keyId }: LedgerMember) => !silent.has(keyId);
  return prepared ? deliverToMembers(prepared, { asking, standIn, isDue }, deps) : undefined;
}

const isOlder = ({ federation }: Service, { ledger }: LedgerEntry) => (federation?.revision ?? 0) < ledger.revision;
