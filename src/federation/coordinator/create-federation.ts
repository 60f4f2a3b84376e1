import { allSettled } from '../../lib/concurrency.ts';
import { type Definition, readDefinition } from '../../model/service/index.ts';
import { type Credential, FederationError, keyIdOf, PeerError, type Probe, withinDeadline } from '../../peers/index.ts';
import type { ServiceRecord } from '../../ports/index.ts';
import { type DesiredMember, requireRoom } from './align.ts';
import { budgetsFor, type Caller, type Coordination, LONGEST_CREATE } from './coordination.ts';
import {
  isOvertaken,
  type Ledger,
  type LedgerEntry,
  type LedgerMember,
  Ledgers,
  markCommitted,
  memberId,
} from './ledger.ts';
import { isGivenUp, makeMember, type Readiness, readinessOf, STILL_ENDING } from './make-member.ts';
import { asCaller, type MemberCredentials, type MemberPlace, peerOf, unknownPlace } from './member-access.ts';
import { dropKeys, keepKeys } from './member-keys.ts';
import { ordersOf, type Pending, pendingOf } from './orders.ts';
import { checkMembers, requireGrant } from './prepare.ts';
import { carryOut, endingOf, removeOwn } from './remove-federation.ts';
import { type MemberVerdict, memberProblem, memberRefusal, type Result, recordResults } from './results.ts';

interface CreatedFederation {
  readonly record: ServiceRecord;
  /** With `deployment: best-effort`: members that are yet to be made, and why. */
  readonly pending: readonly Pending[];
}

/**
 * Makes a service and its members, or nothing at all (docs/federation.md#create-all-or-nothing). What can refuse is
 * asked first and changes nothing; what is begun is written down before it is; whoever is stopped in between has
 * `recover` behind them, which undoes it.
 */
export async function createFederation(caller: Caller, body: unknown, deps: Coordination): Promise<CreatedFederation> {
  const given = readDefinition(body);
  const { name, clusters, federation } = given.definition;
  const { credentials } = given.secrets;
  const wanted = checkMembers(given, deps);
  requireGrant(credentials);
  const time = createTime(wanted, deps);
  const spent = await finishAborted(name, deps);
  const uid = deps.newUid();
  requireRoom(ledgerOf(uid, name, deps.now()), wanted);
  const role = { role: 'coordinator', uid, revision: 1, committed: false } as const;
  const definition = await deps.own.plan(caller.principal, body, role);

  const asking = asCaller(caller, { clusters, credentials }, deps);
  const probed = await probeMembers(wanted, asking, deps);
  refuseItself(probed, name, deps);
  const mayMiss = federation?.deployment === 'best-effort';
  if (!mayMiss && probed.some(({ problem }) => problem)) {
    throw memberRefusal(`nothing was made, since not every member of "${name}" can be:`, probed);
  }

  const transaction = await begin(uid, name, probed, deps);
  try {
    await hold(transaction, deps);
    // Neither needs the other until all is committed, and both are undone by the ledger.
    const [own, made] = await Promise.allSettled([
      deps.own.create(caller.principal, body, role),
      makeMembers(transaction, definition, given.secrets.environment, (kind) => time.toMake(kind, spent), deps),
    ]);
    const [record, results] = [valueOf(own), valueOf(made)];
    const verdicts = verdictsOf(transaction, results);
    if (!mayMiss && verdicts.some(({ problem }) => problem)) {
      throw memberRefusal(`"${name}" was not made, since a member failed; what had been made is undone:`, verdicts);
    }
    return await commit(transaction, record, results, deps);
  } catch (error) {
    // What cannot be undone now is in the ledger, and is undone later: the user hears why there is no service.
    await abort(transaction.entry.ledger, asking, time.toUndo(), deps).catch(() => {});
    throw error;
  }
}

interface CreateTime {
  /** Milliseconds for making a member, of which so many went into freeing the name. */
  toMake(kind: LedgerMember['kind'], spent: number): number;
  /** Milliseconds for which the undo of a member is waited for; undefined: as long as usual. */
  toUndo(): number | undefined;
}

/**
 * How long a create may take from now on. With a member whose manager is written in Go its parts may take longer than all of
 * it: what the probe took is taken from the time for making members, and the undo is left to the ledger.
 */
function createTime(wanted: readonly DesiredMember[], deps: Coordination): CreateTime {
  const begun = deps.now();
  const { probe, undo } = budgetsFor('upstream', deps);
  const isSlow = wanted.some(({ place }) => place?.kind === 'upstream');
  const left = () => LONGEST_CREATE - Math.max(deps.now() - begun, 0);
  return {
    toMake(kind, spent) {
      const usual = budgetsFor(kind, deps).create - spent;
      // A clock that is set meanwhile takes no more than the parts before may have taken.
      return isSlow ? Math.min(usual, Math.max(left(), LONGEST_CREATE - probe - undo)) : usual;
    },
    toUndo: () => (isSlow ? Math.min(undo, Math.max(left(), 0)) : undefined),
  };
}

/** A create under way. */
interface Transaction {
  entry: LedgerEntry;
  readonly keys: Map<string, ReturnType<Coordination['newKey']>>;
  readonly parts: readonly { readonly probed: Probed; readonly member: LedgerMember }[];
}

function valueOf<T>(settled: PromiseSettledResult<T>): T {
  if (settled.status === 'fulfilled') return settled.value;
  throw settled.reason;
}

const ledgerOf = (uid: string, name: string, begunAt: number): Ledger => ({
  uid,
  service: name,
  serviceUid: '',
  phase: 'creating',
  revision: 1,
  begunAt,
  members: [],
});

async function begin(uid: string, name: string, probed: readonly Probed[], deps: Coordination): Promise<Transaction> {
  const keys: Transaction['keys'] = new Map();
  const now = deps.now();
  const parts = probed.map((each) => {
    const key = deps.newKey();
    const keyId = keyIdOf(key);
    keys.set(keyId, key);
    const { instance } = each.ready ?? {};
    const member: LedgerMember = {
      ...each.place,
      service: each.wanted.service,
      keyId,
      state: 'wanted',
      ...(each.problem && { untold: true }),
      since: now,
      ...(instance !== undefined && { instance }),
    };
    return { probed: each, member };
  });
  const ledger: Ledger = { ...ledgerOf(uid, name, now), members: parts.map(({ member }) => member) };
  return { entry: await new Ledgers(deps).begin(ledger), keys, parts };
}

/** The keys are kept, and nobody has given this up meanwhile. If that fails, no member has been asked. */
async function hold(transaction: Transaction, deps: Coordination): Promise<void> {
  const { keys, entry } = transaction;
  try {
    await keepKeys(keys, deps);
    const held = await new Ledgers(deps).claim(entry);
    if (!held) throw overtaken(entry.ledger);
    transaction.entry = held;
  } catch (error) {
    // Without its key a member is not asked to undo what it never heard of.
    await dropKeys(keys.keys(), deps).catch(() => {});
    throw error;
  }
}

async function makeMembers(
  { entry, keys, parts }: Transaction,
  definition: Definition,
  secrets: Parameters<typeof ordersOf>[1],
  budgetOf: (kind: LedgerMember['kind']) => number,
  deps: Coordination,
): Promise<Result[]> {
  const orders = ordersOf({ definition }, secrets, entry.ledger, keys, deps);
  return allSettled(
    parts.map(async ({ probed: { ready, problem }, member }): Promise<Result> => {
      const { keyId } = member;
      const order = orders.get(keyId);
      try {
        if (problem) throw problem;
        if (!ready || !order) throw new PeerError('failed', 'it could not be told what to be');
        await withinDeadline(budgetOf(member.kind), makeMember(peerOf(member, deps), order, ready, ready.as));
        const { revision, digest } = order;
        return { keyId, kind: 'made', revision, digest, instance: ready.instance };
      } catch (error) {
        const failure = memberProblem(error);
        return { keyId, kind: failure.code === 'taken' ? 'conflict' : 'away', problem: failure };
      }
    }),
  );
}

function verdictsOf({ parts }: Transaction, results: readonly Result[]): MemberVerdict[] {
  return parts.map(({ probed: { member } }, index) => {
    const result = results[index];
    return { member, ...(result && 'problem' in result && { problem: result.problem }) };
  });
}

/** From here on it exists: the ledger says so, and the service follows it. */
async function commit(
  { entry }: Transaction,
  made: ServiceRecord,
  results: readonly Result[],
  deps: Coordination,
): Promise<CreatedFederation> {
  const ledgers = new Ledgers(deps);
  const ledger = recordResults({ ...entry.ledger, phase: 'active', serviceUid: made.service.uid }, results, deps.now());
  try {
    await ledgers.advance(entry, ledger);
  } catch (error) {
    if (isOvertaken(error)) throw overtaken(ledger);
    // A store that did not answer may have written it all the same.
    if ((await ledgers.read(ledger.uid))?.ledger.phase !== 'active') throw error;
  }
  return { record: (await markCommitted(ledger, deps)) ?? made, pending: pendingOf(ledger) };
}

const givenUp = (ledger: Ledger, now: number) => (ledger.phase === 'creating' ? endingOf(ledger, 'undo', now) : ledger);

async function abort(
  { uid, service }: Ledger,
  standIn: MemberCredentials,
  wait: number | undefined,
  deps: Coordination,
): Promise<void> {
  const entry = await new Ledgers(deps).amend(uid, (ledger) => givenUp(ledger, deps.now()));
  if (entry?.ledger.phase === 'ending') await carryOut(entry, deps, { standIn, ...(wait !== undefined && { wait }) });
  // Somebody else has undone it, maybe before the service here was made.
  if (!entry) await removeOwn(service, uid, deps);
}

/**
 * The name may be held by a create that was given up, or by a delete that is not finished. Gives the milliseconds that it
 * took: they are taken from those for making members, since whoever waits for all of it does not wait for longer.
 */
async function finishAborted(name: string, deps: Coordination): Promise<number> {
  const role = (await deps.services.get(name))?.service.federation;
  if (role?.role !== 'coordinator') return 0;
  const { undo } = budgetsFor('oscar', deps);
  const begun = deps.now();
  const entry = await new Ledgers(deps).read(role.uid);
  if (entry?.ledger.phase === 'ending') await carryOut(entry, deps, { wait: undo });
  else if (!entry && !role.committed) await removeOwn(name, role.uid, deps);
  // A clock that is set meanwhile takes no more than that.
  return Math.min(Math.max(deps.now() - begun, 0), undo);
}

function refuseItself(probed: readonly Probed[], name: string, { here }: Coordination): void {
  const itself = probed.find(({ ready, wanted }) => ready?.instance === here.instance && wanted.service === name);
  if (!itself) return;
  const message = `federation.members: ${itself.member} is the service itself, under another id of this cluster`;
  throw new FederationError('invalid-federation', message);
}

function overtaken({ service }: Ledger): FederationError {
  return new FederationError('federation-gone', `"${service}" was given up while it was being made: create it again`);
}

/** A member that can be made, or why it cannot. */
interface Probed extends MemberVerdict {
  readonly wanted: DesiredMember;
  readonly place: MemberPlace;
  readonly ready?: Readiness & { readonly as: Credential };
}

/** Asks all members at once whether they can be made. Nothing is changed, but for what an earlier create left to undo. */
async function probeMembers(
  wanted: readonly DesiredMember[],
  asking: MemberCredentials,
  deps: Coordination,
): Promise<Probed[]> {
  const probed = await Promise.all(
    wanted.map(async (each): Promise<Probed> => {
      const found = { wanted: each, place: each.place ?? unknownPlace(each.clusterId), member: memberId(each) };
      try {
        const { probe } = budgetsFor(found.place.kind, deps);
        return { ...found, ready: await withinDeadline(probe, readiness(each.service, found.place, asking, deps)) };
      } catch (error) {
        return { ...found, problem: memberProblem(error) };
      }
    }),
  );
  return probed.map((each, index) => ({ ...each, ...twin(each, probed.slice(0, index)) }));
}

async function readiness(
  name: string,
  place: MemberPlace,
  asking: MemberCredentials,
  deps: Coordination,
): Promise<Readiness & { as: Credential }> {
  const as = await asking(place);
  const peer = peerOf(place, deps);
  let probe = await peer.probe(name, as);
  if (await finishUndo(probe, place, as, deps)) {
    probe = await peer.probe(name, as);
    if (await isGivenUp(probe, new Ledgers(deps)))
      throw new PeerError('unreachable', `${STILL_ENDING}: try again in a while`);
  }
  return { ...readinessOf(probe, undefined), as };
}

/** What an aborted create of this coordinator still holds is given back first; with who asks, where keys are not known. */
async function finishUndo(
  probe: Probe,
  { clusterId, kind }: MemberPlace,
  as: Credential,
  deps: Coordination,
): Promise<boolean> {
  const ledgers = new Ledgers(deps);
  const uid = await isGivenUp(probe, ledgers);
  const entry = uid === undefined ? undefined : await ledgers.read(uid);
  if (!entry) return false;
  // What they see here says nothing about what is theirs elsewhere.
  const standIn: MemberCredentials = async (place) => {
    if (place.clusterId === clusterId) return as;
    throw new PeerError('refused', 'its owner is not asking');
  };
  // Somebody waits for the probe, which is made once more after this.
  await carryOut(entry, deps, { standIn, wait: (budgetsFor(kind, deps).probe * 2) / 3 });
  return true;
}

/** Two members that are one service of one manager, under two names of its cluster. */
function twin({ wanted, ready }: Probed, before: readonly Probed[]): { problem?: PeerError } {
  const same = before.find(
    (other) => ready && other.ready?.instance === ready.instance && other.wanted.service === wanted.service,
  );
  return same
    ? { problem: new PeerError('taken', `it is the same service as ${same.member}, of the same manager`) }
    : {};
}
