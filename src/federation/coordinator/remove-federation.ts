import { allSettled } from '../../lib/concurrency.ts';
import type { Service } from '../../model/service/index.ts';
import { type Credential, PeerError, type Removed, withinDeadline } from '../../peers/index.ts';
import type { ServiceRecord } from '../../ports/index.ts';
import { loadSecrets, toSecretsOwner } from '../../services/index.ts';
import { budgetsFor, type Caller, type Coordination } from './coordination.ts';
import {
  isWriteConflict,
  type Ledger,
  type LedgerEntry,
  type LedgerMember,
  Ledgers,
  listKeyIds,
  memberId,
} from './ledger.ts';
import {
  callerCredentials,
  type MemberCredentials,
  ownerCredentials,
  peerFor,
  standInCredentials,
} from './member-access.ts';
import { deleteKeys, readKey, readStandIn, storeStandIn } from './member-keys.ts';
import { type MemberResult, recordResults, reportHealthChanges, toPeerError } from './results.ts';

/** One pass over a federation: selects the members that are due, and records their results. */
export interface ReconcileRound {
  readonly isDue: (member: LedgerMember) => boolean;
  readonly record: (results: readonly MemberResult[]) => void;
}

interface RemovalOptions {
  readonly turn?: ReconcileRound;
  /**
   * Credentials for members on Go managers, which know no keys; those of the owner if absent and the service still exists.
   */
  readonly standIn?: MemberCredentials;
  /** Milliseconds to wait for each member; the default of its kind if absent. */
  readonly wait?: number;
}

/** Finds the credential for a member on a Go manager, which knows no keys. */
type StandIn = (member: LedgerMember) => Promise<Credential>;

/**
 * The ledger of a federation that ends: all members are to be ended. Leaving members keep the ending that was recorded for
 * them.
 */
export function toEndingLedger(ledger: Ledger, how: 'undo' | 'detach', now: number): Ledger {
  const members = ledger.members.map(
    (member): LedgerMember =>
      isEnding(member) ? { end: how, ...member, state: 'undoing' } : toEndingMember(member, how, now),
  );
  return { ...ledger, phase: 'ending', members };
}

const isEnding = ({ state }: LedgerMember) => state === 'undoing' || state === 'leaving';

function toEndingMember({ reason: _, ...member }: LedgerMember, how: 'undo' | 'detach', now: number): LedgerMember {
  return { ...member, state: 'undoing', end: how, since: now };
}

/**
 * Continues the removal of a federation: first the service here, then the members, each within the deadline of its kind.
 * What is left stays in the ledger, which is deleted when nothing is left. Calling it again continues where it stopped.
 */
export async function continueRemoval(
  entry: LedgerEntry,
  deps: Coordination,
  { turn, standIn, wait }: RemovalOptions = {},
): Promise<Ledger | undefined> {
  const { uid, service } = entry.ledger;
  const members = entry.ledger.members.filter((member) => turn?.isDue(member) ?? true);
  const standsIn = await resolveStandIns({ ...entry.ledger, members }, standIn, deps);
  const [own] = await Promise.allSettled([removeOwnService(service, uid, deps)]);
  const results = await endMembers(entry.ledger, members, deps, { standIn: standsIn, wait });
  turn?.record(results);
  reportHealthChanges(entry.ledger, results, deps);
  const left = await new Ledgers(deps).amend(uid, (ledger) => recordResults(ledger, results, deps.now()));
  // A failure to remove the service here does not delay the members, but the ledger stays until the service is removed.
  if (own.status === 'rejected') throw own.reason;
  if (!left || left.ledger.phase !== 'ending' || left.ledger.members.length > 0) return left?.ledger;
  try {
    await new Ledgers(deps).finish(left);
  } catch (error) {
    if (!isWriteConflict(error)) throw error;
  }
  return undefined;
}

/** Removes the coordinator's service of this federation. Another service of the same name is not touched. */
export async function removeOwnService(name: string, uid: string, deps: Coordination): Promise<void> {
  const current = await findOwnService(name, uid, deps);
  if (current) await deps.own.remove(current.service);
}

async function findOwnService(
  name: string,
  uid: string,
  { services }: Coordination,
): Promise<ServiceRecord | undefined> {
  const current = await services.get(name);
  const role = current?.service.federation;
  return role?.role === 'coordinator' && role.uid === uid ? current : undefined;
}

/**
 * Finds the credentials with which members on Go managers are ended. They are stored before the service is removed, because
 * the owner's grant is deleted with it, and Go managers take longer to delete a service than the caller waits.
 */
async function resolveStandIns(
  { uid, service, members }: Ledger,
  given: MemberCredentials | undefined,
  deps: Coordination,
): Promise<StandIn> {
  const keyless = members.filter(({ kind }) => kind === 'upstream');
  if (keyless.length === 0) return noCredentials;
  const asking = given ?? (await storedOwnerCredentials(await findOwnService(service, uid, deps), deps));
  const found = new Map(keyless.map((member) => [member.keyId, resolveStandIn(member, asking, deps)]));
  await Promise.allSettled(found.values());
  return async (member) => found.get(member.keyId) ?? noCredentials(member);
}

/** The caller's credential; without one, the credential that was stored first. */
async function resolveStandIn(
  member: LedgerMember,
  asking: MemberCredentials,
  deps: Coordination,
): Promise<Credential> {
  const { keyId } = member;
  const asked = withinDeadline(budgetsFor('upstream', deps).undo, asking(member));
  const kept = await asked.then(
    (as) => storeStandIn(keyId, as, deps),
    () => readStandIn(keyId, deps),
  );
  return kept ?? asked;
}

async function storedOwnerCredentials(
  record: ServiceRecord | undefined,
  deps: Coordination,
): Promise<MemberCredentials> {
  if (!record) return noCredentials;
  const { service } = record;
  const { credentials } = await loadSecrets(toSecretsOwner(service), deps);
  return ownerCredentials(service, { clusters: service.definition.clusters, credentials }, deps);
}

const noCredentials: MemberCredentials = async () => {
  throw new PeerError(
    'refused',
    'the service and the grant of its owner no longer exist here: delete the member there',
  );
};

/** Ends those of the members that are `undoing`, concurrently. */
export async function endMembers(
  { uid, members: known }: Ledger,
  members: readonly LedgerMember[],
  deps: Coordination,
  how: { readonly standIn: StandIn; readonly wait?: number | undefined },
): Promise<MemberResult[]> {
  const ending = members.filter(({ state }) => state === 'undoing');
  return allSettled(ending.map((member) => endMember({ uid, member, known, ...how }, deps)));
}

interface Ending {
  readonly uid: string;
  readonly member: LedgerMember;
  readonly standIn: StandIn;
  readonly wait?: number | undefined;
  /** All members of the federation. */
  readonly known: readonly LedgerMember[];
}

/** Ends a member with both of its keys: the request that installs the next key may still be in flight. */
async function endMember(ending: Ending, deps: Coordination): Promise<MemberResult> {
  const { member } = ending;
  const { keyId } = member;
  try {
    const asked = member.unrequested ? [] : listKeyIds(member);
    const removed = await allSettled(asked.map((id) => endWithKey(id, ending, deps)));
    const answers = removed.filter((each) => each !== undefined);
    const isHeld = answers.length > 0 && answers.every((each) => each === 'held');
    if (isHeld && !ending.known.some((other) => mayHold(other, member))) throw unknownKey();
    await deleteKeys(listKeyIds(member), deps);
    return { keyId, kind: 'ended' };
  } catch (error) {
    return { keyId, kind: 'away', problem: toPeerError(error) };
  }
}

/**
 * Whether another entry explains why the worker still exists: the same member, added again, or the same service under
 * another id of its cluster.
 */
const mayHold = (other: LedgerMember, { keyId, service, instance, ...member }: LedgerMember) =>
  other.keyId !== keyId &&
  other.service === service &&
  (other.clusterId === member.clusterId || instance === undefined || other.instance === instance);

/** This manager was restored from a backup that is older than the worker's key. */
const unknownKey = () =>
  new PeerError('refused', 'key lost: this manager does not have the key of the member: delete the member there');

/** The reason shown while a Go manager is still deleting a member; a later check finds it gone. */
const TAKES_LONG = 'its manager is still deleting it: this manager will check again';

/** Returns undefined if the key is not stored. */
async function endWithKey(
  id: string,
  { uid, member, wait, standIn }: Ending,
  deps: Coordination,
): Promise<Removed | undefined> {
  const key = await readKey(id, deps);
  // A key is stored before the first request that uses it and deleted after the last, so without the key there is no worker.
  if (!key) return undefined;
  const as = { uid, member: memberId(member), key, owner: () => standIn(member) };
  try {
    const removing = peerFor(member, deps).remove(member.service, member.end ?? 'undo', as);
    const { undo } = budgetsFor(member.kind, deps);
    const removed = await withinDeadline(wait ?? undo, removing, member.kind === 'upstream' ? TAKES_LONG : undefined);
    // The key stays stored: without it, the next pass would treat the member as ended.
    if (removed === 'held') return 'held';
  } catch (error) {
    if (!(error instanceof PeerError && error.code === 'gone')) throw error;
  }
  await deleteKeys([id], deps);
  return 'ended';
}

/**
 * Removes a federation at the request of its owner or the administrator. The ending is written to the ledger first, with all
 * that is needed to end the members without the definition; then the service is removed, then the members that answer in
 * time. `cascade: false` leaves them as plain services. Returns the members that are not ended yet.
 */
export async function removeFederation(
  { service }: ServiceRecord,
  { cascade, caller }: { readonly cascade: boolean; readonly caller?: Caller },
  deps: Coordination,
): Promise<readonly LedgerMember[]> {
  const role = service.federation;
  const how = cascade ? 'undo' : 'detach';
  const entry =
    role?.role === 'coordinator'
      ? await new Ledgers(deps).amend(role.uid, (ledger) =>
          ledger.phase === 'ending' ? ledger : toEndingLedger(ledger, how, deps.now()),
        )
      : undefined;
  if (!entry) {
    await deps.own.remove(service);
    return [];
  }
  const standIn = caller && (await callerStandIn(caller, service, deps));
  return (await continueRemoval(entry, deps, standIn && { standIn }))?.members ?? [];
}

async function callerStandIn(caller: Caller, service: Service, deps: Coordination): Promise<MemberCredentials> {
  const { credentials } = await loadSecrets(toSecretsOwner(service), deps);
  const accounts = { clusters: service.definition.clusters, credentials };
  return standInCredentials(caller.principal, callerCredentials(caller, accounts, deps), service, accounts, deps);
}
