import { allSettled } from '../base/all-settled.ts';
import type { ServiceRecord } from '../cluster/index.ts';
import { type Definition, readDefinition } from '../service/index.ts';
import { checkMembers, requireGrant } from './coordinator/check-members.ts';
import { markCommitted } from './coordinator/commit.ts';
import { budgetsOf, type Caller, type Coordination } from './coordinator/coordination.ts';
import { carryOut, endingOf, removeOwn } from './coordinator/ending.ts';
import { requireRoom } from './coordinator/ledger-room.ts';
import { type Asking, asCaller } from './coordinator/member/asking.ts';
import { makeMember } from './coordinator/member/make-member.ts';
import { peerOf } from './coordinator/member/member-address.ts';
import { dropKeys, keepKeys } from './coordinator/member/member-keys.ts';
import { type Probed, probeMembers } from './coordinator/member/probe-members.ts';
import { problemOf, refusal, type Verdict } from './coordinator/member/verdicts.ts';
import { within } from './coordinator/member/within.ts';
import { ordersOf } from './coordinator/orders.ts';
import { type Pending, pendingOf } from './coordinator/pending.ts';
import { type Result, recordResults } from './coordinator/results.ts';
import { FederationError } from './errors.ts';
import type { Ledger, LedgerEntry, LedgerMember } from './ledger.ts';
import { isOvertaken, Ledgers } from './ledger-store.ts';
import { PeerError } from './peer/peer.ts';
import { keyIdOf } from './peer/signature.ts';

export interface Deployed {
  readonly record: ServiceRecord;
  /** With `deployment: best-effort`: members that are yet to be made, and why. */
  readonly pending: readonly Pending[];
}

/**
 * Makes a service and its members, or nothing at all (design §7). What can refuse is asked first and changes nothing; what
 * is begun is written down before it is; whoever is stopped in between has `recover` behind them, which undoes it.
 */
export async function deploy(caller: Caller, body: unknown, deps: Coordination): Promise<Deployed> {
  const given = readDefinition(body);
  const { name, clusters, federation } = given.definition;
  const { credentials } = given.secrets;
  const wanted = checkMembers(given, deps);
  requireGrant(credentials);
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
    throw refusal(`nothing was made, since not every member of "${name}" can be:`, probed);
  }

  const transaction = await begin(uid, name, probed, deps);
  try {
    await hold(transaction, deps);
    // Neither needs the other until all is committed, and both are undone by the ledger.
    const [own, made] = await Promise.allSettled([
      deps.own.create(caller.principal, body, role),
      makeMembers(transaction, definition, given.secrets.environment, budgetsOf(deps).create - spent, deps),
    ]);
    const [record, results] = [valueOf(own), valueOf(made)];
    const verdicts = verdictsOf(transaction, results);
    if (!mayMiss && verdicts.some(({ problem }) => problem)) {
      throw refusal(`"${name}" was not made, since a member failed; what had been made is undone:`, verdicts);
    }
    return await commit(transaction, record, results, deps);
  } catch (error) {
    // What cannot be undone now is in the ledger, and is undone later: the user hears why there is no service.
    await abort(transaction.entry.ledger, asking, deps).catch(() => {});
    throw error;
  }
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
  budget: number,
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
        await within(budget, makeMember(peerOf(member, deps), order, ready, ready.as));
        const { revision, digest } = order;
        return { keyId, kind: 'made', revision, digest, instance: ready.instance };
      } catch (error) {
        const failure = problemOf(error);
        return { keyId, kind: failure.code === 'taken' ? 'conflict' : 'away', problem: failure };
      }
    }),
  );
}

function verdictsOf({ parts }: Transaction, results: readonly Result[]): Verdict[] {
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
): Promise<Deployed> {
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

async function abort({ uid, service }: Ledger, standIn: Asking, deps: Coordination): Promise<void> {
  const entry = await new Ledgers(deps).amend(uid, (ledger) => givenUp(ledger, deps.now()));
  if (entry?.ledger.phase === 'ending') await carryOut(entry, budgetsOf(deps).undo, deps, { standIn });
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
  const { undo } = budgetsOf(deps);
  const begun = deps.now();
  const entry = await new Ledgers(deps).read(role.uid);
  if (entry?.ledger.phase === 'ending') await carryOut(entry, undo, deps);
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
