import { allSettled } from '../../base/all-settled.ts';
import { loadSecrets, ownerOfSecrets } from '../../catalog/index.ts';
import type { ServiceRecord } from '../../cluster/index.ts';
import type { Ledger, LedgerEntry, LedgerMember } from '../ledger.ts';
import { keyIdsOf, memberId } from '../ledger.ts';
import { isOvertaken, Ledgers } from '../ledger-store.ts';
import { PeerError, type Removed } from '../peer/peer.ts';
import type { Coordination } from './coordination.ts';
import { type Asking, asOwner } from './member/asking.ts';
import { peerOf } from './member/member-address.ts';
import { dropKeys, readKey } from './member/member-keys.ts';
import { problemOf } from './member/verdicts.ts';
import { within } from './member/within.ts';
import { type Result, recordResults } from './results.ts';

/** Who is asked this time, where not everybody is. */
export interface Turn {
  readonly isDue: (member: LedgerMember) => boolean;
  readonly note: (results: readonly Result[]) => void;
}

export interface CarryingOut {
  readonly turn?: Turn;
  /** Who stands for the keys of members that know none; the owner, if it is not said and the service is still there. */
  readonly standIn?: Asking;
}

/** The federation is over: everything that its ledger names is to be ended. Members that are leaving go as was said. */
export function endingOf(ledger: Ledger, how: 'undo' | 'detach', now: number): Ledger {
  const members = ledger.members.map(
    (member): LedgerMember =>
      isEnding(member) ? { end: how, ...member, state: 'undoing' } : endMemberOf(member, how, now),
  );
  return { ...ledger, phase: 'ending', members };
}

const isEnding = ({ state }: LedgerMember) => state === 'undoing' || state === 'leaving';

function endMemberOf({ reason: _, ...member }: LedgerMember, how: 'undo' | 'detach', now: number): LedgerMember {
  return { ...member, state: 'undoing', end: how, since: now };
}

/**
 * Goes on with a federation that is ending: its service here, then the members, each for as long as the budget says. What
 * is left stays in the ledger, which is finished when nothing is. Again: goes on where it was.
 */
export async function carryOut(
  entry: LedgerEntry,
  budget: number,
  deps: Coordination,
  { turn, standIn }: CarryingOut = {},
): Promise<Ledger | undefined> {
  const { uid, service } = entry.ledger;
  const members = entry.ledger.members.filter((member) => turn?.isDue(member) ?? true);
  const standsIn = await standInFor({ ...entry.ledger, members }, standIn, budget, deps);
  const [own] = await Promise.allSettled([removeOwn(service, uid, deps)]);
  const results = await endMembers(entry.ledger, members, budget, deps, standsIn);
  turn?.note(results);
  const left = await new Ledgers(deps).amend(uid, (ledger) => recordResults(ledger, results, deps.now()));
  // That it cannot be removed here is no reason to let the members wait, but the ledger stays until it is.
  if (own.status === 'rejected') throw own.reason;
  if (!left || left.ledger.phase !== 'ending' || left.ledger.members.length > 0) return left?.ledger;
  try {
    await new Ledgers(deps).finish(left);
  } catch (error) {
    if (!isOvertaken(error)) throw error;
  }
  return undefined;
}

/** Removes the service of this federation here; one of the same name that is not of it stays. */
export async function removeOwn(name: string, uid: string, deps: Coordination): Promise<void> {
  const current = await ownOf(name, uid, deps);
  if (current) await deps.own.remove(current.service);
}

async function ownOf(name: string, uid: string, { services }: Coordination): Promise<ServiceRecord | undefined> {
  const current = await services.get(name);
  const role = current?.service.federation;
  return role?.role === 'coordinator' && role.uid === uid ? current : undefined;
}

/**
 * As whom members are ended whose managers know no keys. It is found before the service goes, since what its owner left to
 * ask with goes with it.
 */
async function standInFor(
  { uid, service, members }: Ledger,
  given: Asking | undefined,
  budget: number,
  deps: Coordination,
): Promise<Asking> {
  const keyless = new Map(members.filter(({ kind }) => kind === 'upstream').map((each) => [each.clusterId, each]));
  if (keyless.size === 0) return asNobodyAnyMore;
  const asking = given ?? (await asOwnerOf(await ownOf(service, uid, deps), deps));
  const found = new Map([...keyless].map(([id, member]) => [id, within(budget, asking(member))]));
  await Promise.allSettled(found.values());
  return async (place) => found.get(place.clusterId) ?? asNobodyAnyMore(place);
}

async function asOwnerOf(record: ServiceRecord | undefined, deps: Coordination): Promise<Asking> {
  if (!record) return asNobodyAnyMore;
  const { service } = record;
  const { credentials } = await loadSecrets(ownerOfSecrets(service), deps);
  return asOwner(service, { clusters: service.definition.clusters, credentials }, deps);
}

const asNobodyAnyMore: Asking = async () => {
  throw new PeerError('refused', 'the service is gone here, and with it what its owner had left: delete it there');
};

/** Tells every one of these members that is to be ended so, all at once. */
export async function endMembers(
  { uid, members: known }: Ledger,
  members: readonly LedgerMember[],
  budget: number,
  deps: Coordination,
  standIn: Asking,
): Promise<Result[]> {
  const ending = members.filter(({ state }) => state === 'undoing');
  return allSettled(ending.map((member) => endMember({ uid, member, budget, standIn, known }, deps)));
}

interface Ending {
  readonly uid: string;
  readonly member: LedgerMember;
  readonly budget: number;
  readonly standIn: Asking;
  /** All members of the federation. */
  readonly known: readonly LedgerMember[];
}

/** It may know either of its keys, and the request that brings the later one may still be on its way. */
async function endMember(ending: Ending, deps: Coordination): Promise<Result> {
  const { member } = ending;
  const { keyId } = member;
  try {
    const removed = await allSettled(keyIdsOf(member).map((id) => endKeyed(id, ending, deps)));
    const answers = removed.filter((each) => each !== undefined);
    const isHeld = answers.length > 0 && answers.every((each) => each === 'held');
    if (isHeld && !ending.known.some((other) => mayHold(other, member))) throw keyForgotten();
    await dropKeys(keyIdsOf(member), deps);
    return { keyId, kind: 'ended' };
  } catch (error) {
    return { keyId, kind: 'away', problem: problemOf(error) };
  }
}

/** Is it the same member, added again since, or may it be the same service under another id of its cluster? */
const mayHold = (other: LedgerMember, { keyId, service, instance, ...member }: LedgerMember) =>
  other.keyId !== keyId &&
  other.service === service &&
  (other.clusterId === member.clusterId || instance === undefined || other.instance === instance);

/** This manager was restored from a backup that is older than the key of the worker. */
const keyForgotten = () =>
  new PeerError('refused', 'key lost: it has a key there that this manager does not know: delete it there');

/** Undefined where there is nothing to ask with. */
async function endKeyed(
  id: string,
  { uid, member, budget, standIn }: Ending,
  deps: Coordination,
): Promise<Removed | undefined> {
  const key = await readKey(id, deps);
  // A key is kept before the first request that names it, and dropped after the last: without it nothing is there.
  if (!key) return undefined;
  const as = { uid, member: memberId(member), key, owner: () => standIn(member) };
  try {
    const removed = await within(budget, peerOf(member, deps).remove(member.service, member.end ?? 'undo', as));
    // The key is kept: without it the next look would take it for ended.
    if (removed === 'held') return 'held';
  } catch (error) {
    if (!(error instanceof PeerError && error.code === 'gone')) throw error;
  }
  await dropKeys([id], deps);
  return 'ended';
}
