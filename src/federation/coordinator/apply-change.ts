import { isDeepStrictEqual } from 'node:util';
import type { ServiceRecord } from '../../cluster/index.ts';
import type { Admin, User } from '../../identity/index.ts';
import type { Replica } from '../../service/schema.ts';
import { FederationError } from '../errors.ts';
import { keyIdsOf, type LedgerEntry, type LedgerMember, memberId } from '../ledger.ts';
import { isOvertaken, Ledgers } from '../ledger-store.ts';
import { memberProblems } from '../topology.ts';
import { requireGrant } from './check-members.ts';
import type { Coordination, ReadDefinition } from './coordination.ts';
import { requireRoom } from './ledger-room.ts';
import { dropKeys } from './member/member-keys.ts';
import { originIdOf } from './orders.ts';
import { deployedOf, wantedBy } from './prepare.ts';
import { type Telling, type Told, tellMembers } from './tell-members.ts';

/** One change of a service as it was read. */
export interface Change extends Telling {
  readonly principal: Admin | User;
  readonly before: ServiceRecord;
  readonly given: ReadDefinition;
  /** Those that are stored and those that were brought. */
  readonly credentials: ReadDefinition['secrets']['credentials'];
  readonly removal: Removal;
  /** Members that were named as new, and are made again although their owner had ended them. */
  readonly again: readonly Replica[];
}

/** How members that are no longer in it are ended. */
interface Removal {
  readonly end: 'undo' | 'detach';
  /** At once, whatever work they have. */
  readonly force: boolean;
  /** Those that were named: what was said about others before, which are leaving already, holds. */
  readonly named: readonly Replica[] | 'all';
}

/**
 * Stores the next revision of a service here, under the version that was read, and tells its members. What has to be known
 * if this manager dies in between is in the ledger before.
 */
export async function applyChange(change: Change, deps: Coordination): Promise<Told> {
  const { principal, before, given, credentials } = change;
  const { definition } = given;
  const { federation: role } = before.service;
  const members = definition.federation?.members ?? [];
  const problems = memberProblems(definition, originIdOf({ definition }, deps), deps.mostMembers);
  if (problems.length > 0) throw new FederationError('invalid-federation', problems.join('\n'));
  if (members.length > 0) requireGrant(credentials);
  if (role?.role !== 'coordinator' && members.length === 0) {
    return { record: await deps.own.update(principal, given, before.version, role), pending: [] };
  }

  const entry = await openLedger(before, deps);
  const { uid } = entry.ledger;
  try {
    requireRoom(entry.ledger, wantedBy(given, deps));
  } catch (error) {
    if (!role) await discard(entry, deps);
    throw error;
  }
  await noteEnds(entry, change, deps);
  const revision = Math.max(role?.revision ?? 0, entry.ledger.revision) + 1;
  const record = await deps.own
    .update(principal, given, before.version, { role: 'coordinator', uid, revision, committed: true })
    .catch(async (error) => {
      if (!role) await discard(entry, deps);
      throw error;
    });
  return tellMembers(uid, record, change, deps);
}

/** The ledger of a service; one that had no members until now begins its own, before anything names it. */
async function openLedger({ service }: ServiceRecord, deps: Coordination): Promise<LedgerEntry> {
  const { federation: role, definition, uid: serviceUid } = service;
  if (role?.role === 'worker') {
    throw new FederationError(
      'not-the-coordinator',
      `"${definition.name}" belongs to a federation whose coordinator is ${role.origin.service} at ${role.origin.endpoint}: change it there`,
    );
  }
  const ledgers = new Ledgers(deps);
  const entry = role && (await ledgers.read(role.uid));
  if (entry?.ledger.phase === 'creating') {
    throw new FederationError('origin-away', `the members of "${definition.name}" are just being made: try again`);
  }
  if (entry?.ledger.phase === 'ending' || (role && !entry && !role.committed)) {
    throw new FederationError('federation-gone', `"${definition.name}" is just being removed`);
  }
  const uid = role?.uid ?? deps.newUid();
  const begunAt = deps.now();
  const fresh = {
    uid,
    service: definition.name,
    serviceUid,
    phase: 'active',
    revision: 0,
    begunAt,
    members: [],
  } as const;
  return entry ?? ledgers.begin(fresh);
}

/** Nobody names it, so nothing was made by it. */
async function discard(entry: LedgerEntry, deps: Coordination): Promise<void> {
  await new Ledgers(deps).finish(entry).catch((error) => {
    if (!isOvertaken(error)) throw error;
  });
}

/**
 * What the definition cannot say is written down before it changes: how members that leave are ended, and which of those
 * that their owners ended are to be made again.
 */
async function noteEnds(
  { ledger: { uid } }: LedgerEntry,
  { given, removal, again }: Change,
  deps: Coordination,
): Promise<void> {
  const staying = new Set(deployedOf(given.definition.federation?.members).map(idOf));
  const returning = new Set(again.map(idOf));
  const forgotten: string[] = [];
  await new Ledgers(deps).amend(uid, (ledger) => {
    const members = ledger.members.flatMap((member) => {
      const id = memberId(member);
      if (member.state === 'left' && returning.has(id)) {
        forgotten.push(...keyIdsOf(member));
        return [];
      }
      return staying.has(id) ? [member] : [endingBy(removal, member)];
    });
    return isDeepStrictEqual(members, ledger.members) ? ledger : { ...ledger, members };
  });
  await dropKeys(forgotten, deps);
}

function endingBy({ end, force, named }: Removal, member: LedgerMember): LedgerMember {
  const isNamed = named === 'all' || named.some((each) => idOf(each) === memberId(member));
  if (member.state === 'undoing' || (member.state === 'leaving' && !isNamed)) return member;
  const { force: _, ...known } = member;
  return { ...known, end, ...(force && { force }) };
}

const idOf = ({ cluster_id, service_name }: Replica) => `${cluster_id}/${service_name}`;
