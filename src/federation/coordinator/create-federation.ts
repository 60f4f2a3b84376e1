import { allSettled } from '../../lib/concurrency.ts';
import type { Secret } from '../../lib/secret.ts';
import { type Definition, readDefinition } from '../../model/service/index.ts';
import {
  type Credential,
  FederationError,
  memberKeyId,
  PeerError,
  type Probe,
  withinDeadline,
} from '../../peers/index.ts';
import type { ServiceRecord } from '../../ports/index.ts';
import type { PlannedMember } from '../../services/index.ts';
import { type DesiredMember, requireLedgerCapacity } from './align.ts';
import { budgetsFor, type Caller, type Coordination, LONGEST_CREATE } from './coordination.ts';
import { type CreationPlan, createMember, findAbortedFederation, planCreation, STILL_ENDING } from './deliver.ts';
import {
  isWriteConflict,
  type Ledger,
  type LedgerEntry,
  type LedgerMember,
  Ledgers,
  markCommitted,
  memberId,
} from './ledger.ts';
import {
  callerCredentials,
  type MemberCredentials,
  peerFor,
  type StoredAddress,
  unknownAddress,
} from './member-access.ts';
import { deleteKeys, storeKeys } from './member-keys.ts';
import { buildOrders, listPending, type PendingMember } from './orders.ts';
import { checkMembers, proveToken, requireGrant } from './prepare.ts';
import { continueRemoval, removeOwnService, toEndingLedger } from './remove-federation.ts';
import { type MemberCheck, type MemberResult, membersError, recordResults, toPeerError } from './results.ts';

interface CreatedFederation {
  readonly record: ServiceRecord;
  /** With `deployment: best-effort`: members that are not created yet, and why. */
  readonly pending: readonly PendingMember[];
}

/**
 * Creates a service and its members, or nothing (docs/federation.md#create-all-or-nothing). Everything that can reject the
 * create is checked first and changes nothing. Each step is written to the ledger before it happens, so `recoverFederations`
 * undoes a create whose manager stopped.
 */
export async function createFederation(caller: Caller, body: unknown, deps: Coordination): Promise<CreatedFederation> {
  const given = readDefinition(body);
  const { name, clusters, federation } = given.definition;
  const { credentials } = given.secrets;
  const wanted = checkMembers(given, deps);
  requireGrant(credentials);
  const time = timeBudget(wanted, deps);
  const spent = await finishAborted(name, deps);
  const uid = deps.newUid();
  requireLedgerCapacity(newLedger(uid, name, deps.now()), wanted);
  const role = { role: 'coordinator', uid, revision: 1, committed: false } as const;
  const definition = await deps.own.plan(caller.principal, body, role);

  const asking = callerCredentials(caller, { clusters, credentials }, deps);
  const [whileRetained, probed] = await Promise.all([
    proveToken(caller.principal, credentials, deps),
    probeMembers(wanted, asking, 'announce', deps),
  ]);
  return whileRetained(async () => {
    const mayMiss = federation?.deployment === 'best-effort';
    rejectUncreatable(probed, name, mayMiss, deps);
    const transaction = await begin(uid, name, probed, deps);
    try {
      await claim(transaction, deps);
      // The two are independent until the commit, and the ledger undoes both.
      const [own, made] = await Promise.allSettled([
        deps.own.create(caller.principal, body, role),
        createMembers(transaction, definition, given.secrets.environment, (kind) => time.toMake(kind, spent), deps),
      ]);
      const [record, results] = [valueOf(own), valueOf(made)];
      const verdicts = toChecks(transaction, results);
      if (!mayMiss && verdicts.some(({ problem }) => problem)) {
        throw membersError(
          `"${name}" was not created: a member failed, and everything that was created is rolled back:`,
          verdicts,
        );
      }
      return await commit(transaction, record, results, deps);
    } catch (error) {
      // What cannot be undone now is in the ledger and is undone later. The caller gets the original error.
      await abort(transaction.entry.ledger, asking, time.toUndo(), deps).catch(() => {});
      throw error;
    }
  });
}

/** What {@link createFederation} would do at the members. Throws what would reject it, and changes nothing. */
export async function planFederation(caller: Caller, body: unknown, deps: Coordination): Promise<PlannedMember[]> {
  const given = readDefinition(body);
  const { name, clusters, federation } = given.definition;
  const { credentials } = given.secrets;
  const wanted = checkMembers(given, deps);
  requireGrant(credentials);
  requireLedgerCapacity(newLedger(deps.newUid(), name, deps.now()), wanted);
  const probed = await probeMembers(
    wanted,
    callerCredentials(caller, { clusters, credentials }, deps),
    'look-only',
    deps,
  );
  rejectUncreatable(probed, name, federation?.deployment === 'best-effort', deps);
  return probed.map(toPlannedMember);
}

/** What would be done to create members that a definition adds. */
export async function planMembers(
  added: readonly DesiredMember[],
  asking: MemberCredentials,
  deps: Coordination,
): Promise<PlannedMember[]> {
  return (await probeMembers(added, asking, 'look-only', deps)).map(toPlannedMember);
}

const toPlannedMember = ({ member, ready, problem }: ProbedMember): PlannedMember => ({
  member,
  action: ready?.by === 'adopt' ? 'adopt' : 'create',
  ...(problem && { problem: problem.message }),
});

function rejectUncreatable(probed: readonly ProbedMember[], name: string, mayMiss: boolean, deps: Coordination): void {
  rejectItself(probed, name, deps);
  if (mayMiss || !probed.some(({ problem }) => problem)) return;
  throw membersError(`nothing was created: not every member of "${name}" can be created:`, probed);
}

interface TimeBudget {
  /** Milliseconds to create a member, after `spent` milliseconds went into freeing the name. */
  toMake(kind: LedgerMember['kind'], spent: number): number;
  /** Milliseconds to wait for the undo of a member; undefined means the default. */
  toUndo(): number | undefined;
}

/**
 * How long a create may take from now on. With a member on a Go manager, the deadlines of the steps add up to more than the
 * whole: the time of the probe counts against the creation of members, and an undo that does not fit is left to the ledger.
 */
function timeBudget(wanted: readonly DesiredMember[], deps: Coordination): TimeBudget {
  const begun = deps.now();
  const { probe, undo } = budgetsFor('upstream', deps);
  const isSlow = wanted.some(({ address }) => address?.kind === 'upstream');
  const left = () => LONGEST_CREATE - Math.max(deps.now() - begun, 0);
  return {
    toMake(kind, spent) {
      const usual = budgetsFor(kind, deps).create - spent;
      // If the clock is changed meanwhile, no more is subtracted than the earlier steps may take.
      return isSlow ? Math.min(usual, Math.max(left(), LONGEST_CREATE - probe - undo)) : usual;
    },
    toUndo: () => (isSlow ? Math.min(undo, Math.max(left(), 0)) : undefined),
  };
}

/** A create in progress. */
interface Transaction {
  entry: LedgerEntry;
  readonly keys: Map<string, ReturnType<Coordination['newKey']>>;
  readonly parts: readonly { readonly probed: ProbedMember; readonly member: LedgerMember }[];
}

function valueOf<T>(settled: PromiseSettledResult<T>): T {
  if (settled.status === 'fulfilled') return settled.value;
  throw settled.reason;
}

const newLedger = (uid: string, name: string, begunAt: number): Ledger => ({
  uid,
  service: name,
  serviceUid: '',
  phase: 'creating',
  revision: 1,
  begunAt,
  members: [],
});

async function begin(
  uid: string,
  name: string,
  probed: readonly ProbedMember[],
  deps: Coordination,
): Promise<Transaction> {
  const keys: Transaction['keys'] = new Map();
  const now = deps.now();
  const parts = probed.map((each) => {
    const { key } = each;
    const keyId = memberKeyId(key);
    keys.set(keyId, key);
    const { instance } = each.ready ?? {};
    const member: LedgerMember = {
      ...each.address,
      service: each.wanted.service,
      keyId,
      state: 'wanted',
      ...(each.problem && { unrequested: true }),
      since: now,
      ...(instance !== undefined && { instance }),
    };
    return { probed: each, member };
  });
  const ledger: Ledger = { ...newLedger(uid, name, now), members: parts.map(({ member }) => member) };
  return { entry: await new Ledgers(deps).begin(ledger), keys, parts };
}

/**
 * Stores the keys and makes sure that no other manager has aborted this create. If this fails, no member has received a
 * request.
 */
async function claim(transaction: Transaction, deps: Coordination): Promise<void> {
  const { keys, entry } = transaction;
  try {
    await storeKeys(keys, deps);
    const held = await new Ledgers(deps).claim(entry);
    if (!held) throw abortedMeanwhile(entry.ledger);
    transaction.entry = held;
  } catch (error) {
    // Without its key, a member gets no undo request for a create that it never received.
    await deleteKeys(keys.keys(), deps).catch(() => {});
    throw error;
  }
}

async function createMembers(
  { entry, keys, parts }: Transaction,
  definition: Definition,
  secrets: Parameters<typeof buildOrders>[1],
  budgetOf: (kind: LedgerMember['kind']) => number,
  deps: Coordination,
): Promise<MemberResult[]> {
  const orders = buildOrders({ definition }, secrets, entry.ledger, keys, deps);
  return allSettled(
    parts.map(async ({ probed: { ready, problem }, member }): Promise<MemberResult> => {
      const { keyId } = member;
      const order = orders.get(keyId);
      try {
        if (problem) throw problem;
        if (!ready || !order) throw new PeerError('failed', 'its definition could not be prepared');
        await withinDeadline(budgetOf(member.kind), createMember(peerFor(member, deps), order, ready, ready.as));
        const { revision, digest } = order;
        return { keyId, kind: 'made', revision, digest, instance: ready.instance };
      } catch (error) {
        const failure = toPeerError(error);
        return { keyId, kind: failure.code === 'taken' ? 'conflict' : 'away', problem: failure };
      }
    }),
  );
}

function toChecks({ parts }: Transaction, results: readonly MemberResult[]): MemberCheck[] {
  return parts.map(({ probed: { member } }, index) => {
    const result = results[index];
    return { member, ...(result && 'problem' in result && { problem: result.problem }) };
  });
}

/** The commit: from the write of the ledger on, the federation exists. The service record follows. */
async function commit(
  { entry }: Transaction,
  made: ServiceRecord,
  results: readonly MemberResult[],
  deps: Coordination,
): Promise<CreatedFederation> {
  const ledgers = new Ledgers(deps);
  const ledger = recordResults({ ...entry.ledger, phase: 'active', serviceUid: made.service.uid }, results, deps.now());
  try {
    await ledgers.advance(entry, ledger);
  } catch (error) {
    if (isWriteConflict(error)) throw abortedMeanwhile(ledger);
    // A store that did not answer may have written the ledger nevertheless.
    if ((await ledgers.read(ledger.uid))?.ledger.phase !== 'active') throw error;
  }
  return { record: (await markCommitted(ledger, deps)) ?? made, pending: listPending(ledger) };
}

const toAborted = (ledger: Ledger, now: number) =>
  ledger.phase === 'creating' ? toEndingLedger(ledger, 'undo', now) : ledger;

async function abort(
  { uid, service }: Ledger,
  standIn: MemberCredentials,
  wait: number | undefined,
  deps: Coordination,
): Promise<void> {
  const entry = await new Ledgers(deps).amend(uid, (ledger) => toAborted(ledger, deps.now()));
  if (entry?.ledger.phase === 'ending')
    await continueRemoval(entry, deps, { standIn, ...(wait !== undefined && { wait }) });
  // Another manager has undone the create, possibly before the service here was created.
  if (!entry) await removeOwnService(service, uid, deps);
}

/**
 * Frees a name that an aborted create or an unfinished delete still holds. Returns how many milliseconds that took; they
 * count against the creation of members, because the caller's own deadline does not move.
 */
async function finishAborted(name: string, deps: Coordination): Promise<number> {
  const role = (await deps.services.get(name))?.service.federation;
  if (role?.role !== 'coordinator') return 0;
  const { undo } = budgetsFor('oscar', deps);
  const begun = deps.now();
  const entry = await new Ledgers(deps).read(role.uid);
  if (entry?.ledger.phase === 'ending') await continueRemoval(entry, deps, { wait: undo });
  else if (!entry && !role.committed) await removeOwnService(name, role.uid, deps);
  // If the clock is changed meanwhile, no more than the deadline is subtracted.
  return Math.min(Math.max(deps.now() - begun, 0), undo);
}

function rejectItself(probed: readonly ProbedMember[], name: string, { here }: Coordination): void {
  const itself = probed.find(({ ready, wanted }) => ready?.instance === here.instance && wanted.service === name);
  if (!itself) return;
  const message = `federation.members: ${itself.member} is the service itself under another id of this cluster`;
  throw new FederationError('invalid-federation', message);
}

function abortedMeanwhile({ service }: Ledger): FederationError {
  return new FederationError(
    'federation-gone',
    `"${service}" was abandoned while it was being created: create it again`,
  );
}

/** A member that can be created, or the reason why it cannot. */
interface ProbedMember extends MemberCheck {
  readonly wanted: DesiredMember;
  readonly address: StoredAddress;
  /** The key that the member gets. The probe announces it. */
  readonly key: Secret;
  readonly ready?: CreationPlan & { readonly as: Credential };
}

/**
 * `announce`: tells the member the key with which it is created next, and finishes the undo of an earlier create.
 * `look-only`: changes nothing.
 */
type ProbeMode = 'announce' | 'look-only';

/** Asks all members concurrently whether they can be created. */
async function probeMembers(
  wanted: readonly DesiredMember[],
  asking: MemberCredentials,
  mode: ProbeMode,
  deps: Coordination,
): Promise<ProbedMember[]> {
  const probed = await Promise.all(
    wanted.map(async (each): Promise<ProbedMember> => {
      const address = each.address ?? unknownAddress(each.clusterId);
      const found = { wanted: each, address, member: memberId(each), key: deps.newKey() };
      const keyId = mode === 'announce' ? memberKeyId(found.key) : undefined;
      try {
        const { probe } = budgetsFor(found.address.kind, deps);
        return {
          ...found,
          ready: await withinDeadline(probe, probeMember(each.service, keyId, address, asking, deps)),
        };
      } catch (error) {
        return { ...found, problem: toPeerError(error) };
      }
    }),
  );
  return probed.map((each, index) => ({ ...each, ...findTwinProblem(each, probed.slice(0, index)) }));
}

async function probeMember(
  name: string,
  keyId: string | undefined,
  address: StoredAddress,
  asking: MemberCredentials,
  deps: Coordination,
): Promise<CreationPlan & { as: Credential }> {
  const as = await asking(address);
  const peer = peerFor(address, deps);
  let probe = await peer.probe(name, as, keyId);
  if (keyId === undefined) {
    // A create would first finish the undo of the earlier one.
    const isFreed = (await findAbortedFederation(probe, new Ledgers(deps))) !== undefined;
    return { ...planCreation(isFreed ? { instance: probe.instance, found: 'nothing' } : probe, undefined), as };
  }
  if (await finishAbortedUndo(probe, address, as, deps)) {
    probe = await peer.probe(name, as, keyId);
    if (await findAbortedFederation(probe, new Ledgers(deps)))
      throw new PeerError('unreachable', `${STILL_ENDING}: try again later`);
  }
  return { ...planCreation(probe, undefined), as };
}

/**
 * Releases what an aborted create of this coordinator still holds there; on Go managers, which know no keys, with the
 * caller's credential.
 */
async function finishAbortedUndo(
  probe: Probe,
  { clusterId, kind }: StoredAddress,
  as: Credential,
  deps: Coordination,
): Promise<boolean> {
  const ledgers = new Ledgers(deps);
  const uid = await findAbortedFederation(probe, ledgers);
  const entry = uid === undefined ? undefined : await ledgers.read(uid);
  if (!entry) return false;
  // The caller's credential is used at this cluster only: access here implies nothing about other clusters.
  const standIn: MemberCredentials = async (address) => {
    if (address.clusterId === clusterId) return as;
    throw new PeerError('refused', 'the request does not come from its owner');
  };
  // The caller waits for the probe, which runs once more after this.
  await continueRemoval(entry, deps, { standIn, wait: (budgetsFor(kind, deps).probe * 2) / 3 });
  return true;
}

/** Detects two members that are the same service of one manager, under two ids of its cluster. */
function findTwinProblem({ wanted, ready }: ProbedMember, before: readonly ProbedMember[]): { problem?: PeerError } {
  const same = before.find(
    (other) => ready && other.ready?.instance === ready.instance && other.wanted.service === wanted.service,
  );
  return same
    ? { problem: new PeerError('taken', `it is the same service on the same manager as ${same.member}`) }
    : {};
}
