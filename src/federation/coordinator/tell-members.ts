import { setTimeout as pause } from 'node:timers/promises';
import type { Service } from '../../model/service/index.ts';
import type { ServiceRecord } from '../../ports/index.ts';
import type { Coordination } from './coordination.ts';
import { deliverToMembers, goPast } from './deliver.ts';
import { isOvertaken, type LedgerEntry, type LedgerMember, Ledgers } from './ledger.ts';
import type { MemberCredentials } from './member-access.ts';
import { isUnexplained, type Pending, pendingOf } from './orders.ts';
import { type Preparing, prepare } from './prepare.ts';
import type { Result } from './results.ts';

/** How members are told of a change. */
export interface Telling {
  readonly asking: MemberCredentials;
  /** Who stands for the keys of members that know none. */
  readonly standIn: MemberCredentials;
  readonly keys: Preparing;
}

export interface Told {
  readonly record: ServiceRecord;
  /** Members that do not have it yet: they get it as soon as they can. */
  readonly pending: readonly Pending[];
}

/** Enough for any burst of writers to one service; more would be a fault, not contention. */
const ATTEMPTS = 8;

/** The longest pause before the next attempt. */
const AGAIN_MS = 50;

/**
 * Resolves to what is stored in the end, and the members that do not have it. Whoever is overtaken here, again and again,
 * has still stored the definition, and `reconcile` brings it to the members. A member of which nobody says why it is behind
 * is told again: somebody else was at work on it at the same time, and what came of telling it was written down for a key
 * that it no longer has. So are all that answer, once, when one of them knows a later revision.
 */
export async function tellMembers(
  uid: string,
  stored: ServiceRecord,
  change: Telling,
  deps: Coordination,
): Promise<Told> {
  const ledgers = new Ledgers(deps);
  let record = stored;
  let silent: ReadonlySet<string> = new Set();
  for (let attempt = 1; ; attempt++) {
    let isTold = false;
    try {
      const results = await tellOnce(uid, record.service, change, silent, deps);
      isTold = results !== undefined;
      const past = record === stored && results ? await goPast(record, results, deps) : undefined;
      if (past && results) {
        record = past;
        silent = new Set(results.flatMap(({ kind, keyId }) => (kind === 'away' ? [keyId] : [])));
        continue;
      }
    } catch (error) {
      if (!isOvertaken(error)) throw error;
    }
    const told = await ledgers.read(uid);
    if (!told) return { record, pending: [] };
    const isOver = isOlder(record.service, told) || (isTold && !isUnexplained(told.ledger));
    if (isOver || attempt >= ATTEMPTS) return { record, pending: pendingOf(told.ledger) };
    await pause(Math.random() * AGAIN_MS);
  }
}

/** Those who did not answer before are not waited for a second time. Undefined when somebody else was faster. */
async function tellOnce(
  uid: string,
  service: Service,
  { asking, standIn, keys }: Telling,
  silent: ReadonlySet<string>,
  deps: Coordination,
): Promise<Result[] | undefined> {
  const entry = await new Ledgers(deps).read(uid);
  if (!entry || entry.ledger.phase !== 'active' || isOlder(service, entry)) return [];
  const prepared = await prepare(entry, service, keys, deps);
  const isDue = ({ keyId }: LedgerMember) => !silent.has(keyId);
  return prepared ? deliverToMembers(prepared, { asking, standIn, isDue }, deps) : undefined;
}

const isOlder = ({ federation }: Service, { ledger }: LedgerEntry) => (federation?.revision ?? 0) < ledger.revision;
