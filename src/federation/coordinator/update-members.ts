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

/** How members are told of a change. */
export interface MembersUpdate {
  readonly asking: MemberCredentials;
  /** Who stands for the keys of members that know none. */
  readonly standIn: MemberCredentials;
  readonly keys: KeyRenewal;
}

export interface UpdatedMembers {
  readonly record: ServiceRecord;
  /** Members that do not have it yet: they get it as soon as they can. */
  readonly pending: readonly PendingMember[];
}

/** Enough for any burst of writers to one service; more would be a fault, not contention. */
const ATTEMPTS = 8;

/** The longest pause before the next attempt. */
const LONGEST_PAUSE = 50;

/**
 * Resolves to what is stored in the end, and the members that do not have it. Whoever is overtaken here, again and again,
 * has still stored the definition, and `reconcile` brings it to the members. A member of which nobody says why it is behind
 * is told again: somebody else was at work on it at the same time, and what came of telling it was written down for a key
 * that it no longer has. So are all that answer, once, when one of them knows a later revision.
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

/** Those who did not answer before are not waited for a second time. Undefined when somebody else was faster. */
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
