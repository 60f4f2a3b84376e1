import { setTimeout as pause } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Admin, Principal, User } from '../../identity/index.ts';
import { OscarError } from '../../lib/oscar-error.ts';
import { backoffDelay } from '../../lib/retry.ts';
import type { Version } from '../../lib/version.ts';
import {
  CLUSTER_ADMIN,
  type Definition,
  type DefinitionSecrets,
  REFRESH_TOKEN_SLOT,
  type Replica,
  readDefinition,
  type Service,
  type StorageProviders,
} from '../../model/service/index.ts';
import { FederationError } from '../../peers/index.ts';
import type { ServiceRecord } from '../../ports/index.ts';
import {
  clustersWithoutAccounts,
  findService,
  loadSecrets,
  oldVersion,
  type PlannedChange,
  toSecretsOwner,
} from '../../services/index.ts';
import { applyMembersChange, listNamedMembers, type MembersChange, memberName, withoutMembers } from '../members.ts';
import { isOwner as owns } from '../ownership.ts';
import { memberProblems } from '../topology.ts';
import { type DesiredMember, requireLedgerCapacity } from './align.ts';
import type { Caller, Coordination, ReadDefinition } from './coordination.ts';
import { planMembers } from './create-federation.ts';
import {
  isWriteConflict,
  type Ledger,
  type LedgerEntry,
  type LedgerMember,
  Ledgers,
  listKeyIds,
  memberId,
} from './ledger.ts';
import { callerCredentials, ownerCredentials } from './member-access.ts';
import { deleteKeys } from './member-keys.ts';
import { originClusterId } from './orders.ts';
import { deployedMembers, desiredMembers, proveToken, requireGrant } from './prepare.ts';
import { type MembersUpdate, type UpdatedMembers, updateMembers } from './update-members.ts';

export interface ChangedFederation extends UpdatedMembers {
  /** Names in the request that are not members. */
  readonly absent?: readonly string[];
}

/** Enough for any burst of writers to one service. More failures than this mean a fault, not contention. */
const ATTEMPTS = 8;

/**
 * Replaces the definition of a service at all its members (docs/federation.md#update). The next revision is stored here
 * first, by compare-and-swap; members that do not answer get it later.
 */
export async function changeFederation(
  caller: Caller,
  body: unknown,
  ifMatch: Version | undefined,
  deps: Coordination,
): Promise<ChangedFederation> {
  const { name } = readDefinition(body).definition;
  return retryOnConflict(ifMatch, async () => {
    const before = await findService(caller.principal, 'update', name, deps);
    requireVersion(before, ifMatch);
    const { given, credentials, asking, renew } = await readReplacement(caller, body, before, deps);
    const removal = { end: 'undo', force: false, named: [] } as const;
    const keys = { renew, rekey: () => renew };
    const { principal } = caller;
    const change = { principal, before, given, credentials, asking, standIn: asking, removal, again: [], keys };
    const hasMembers = (given.definition.federation?.members ?? []).length > 0;
    const whileRetained = await proveToken(principal, hasMembers ? given.secrets.credentials : {}, deps);
    return whileRetained(() => applyChange(change, deps));
  });
}

/** A complete definition that replaces the stored one, and the credentials for requests to its members. */
async function readReplacement(caller: Caller, body: unknown, { service }: ServiceRecord, deps: Coordination) {
  const stored = { definition: service.definition, secrets: await loadSecrets(toSecretsOwner(service), deps) };
  const given = parseReplacement(body, stored);
  const credentials = { ...stored.secrets.credentials, ...given.secrets.credentials };
  rejectClusters(() => true, given, stored.definition.federation?.members ?? [], deps);
  const accounts = { clusters: given.definition.clusters, credentials };
  return { given, credentials, ...credentialsForMembers(caller, service, accounts, deps) };
}

/** What {@link changeFederation} would do at the members. Throws what would reject it, and changes nothing. */
export async function planChange(
  caller: Caller,
  body: unknown,
  before: ServiceRecord,
  deps: Coordination,
): Promise<PlannedChange> {
  const entry = await readLedger(before, deps);
  const { given, credentials, asking } = await readReplacement(caller, body, before, deps);
  checkChange(given, credentials, deps);
  const wanted = desiredMembers(given, deps);
  requireLedgerCapacity(entry?.ledger ?? newLedgerFor(before, deps), wanted);
  const stored = desiredMembers(before.service, deps);
  const [known, staying] = [new Set(stored.map(memberId)), new Set(wanted.map(memberId))];
  const added = wanted.filter((each) => !known.has(memberId(each)));
  const kept = wanted.map(memberId).filter((member) => known.has(member));
  const removed = stored.map(memberId).filter((member) => !staying.has(member));
  return {
    given,
    members: [
      ...kept.map((member) => ({ member, action: 'update' as const })),
      ...(await planMembers(added, asking, deps)),
      ...removed.map((member) => ({ member, action: 'remove' as const })),
    ],
  };
}

/** A caller who may change members. With a service token, members can only be added (docs/federation.md#members). */
type MembersCaller = Caller | { readonly principal: Principal };

/**
 * Adds, changes or removes members. A cluster that is unreachable or rejects the request is no error: the member is recorded
 * and created later. A cluster that nobody has named is one. Names that are not members are reported in `absent`, and change
 * nothing. With `waiting`, members that failed are tried again until they have the change or the signal aborts.
 */
export async function changeMembers(
  caller: MembersCaller,
  name: string,
  given: MembersChange,
  deps: Coordination,
  ifMatch?: Version,
  waiting?: AbortSignal,
): Promise<ChangedFederation> {
  const { principal } = caller;
  const intention = clustersWithoutAccounts(principal, given);
  return retryOnConflict(ifMatch, async () => {
    const before = await findService(
      principal,
      isPlainAddition(intention) ? 'add-member' : 'change-federation',
      name,
      deps,
    );
    requireVersion(before, ifMatch);
    const absent = await findAbsent(before, intention, deps);
    if (absent.length > 0 && isAllOf(intention, absent)) return { record: before, pending: [], absent };
    const { definition } = before.service;
    const stored = { definition, secrets: await loadSecrets(toSecretsOwner(before.service), deps) };
    const intended = isAccount(principal)
      ? intention
      : withoutKnownMembers(intention, definition.federation?.members ?? []);
    const wanted = applyToDefinition(intended, stored);
    rejectClusters(({ unknown }) => unknown === true, wanted, definition.federation?.members ?? [], deps);
    const credentials = { ...stored.secrets.credentials, ...wanted.secrets.credentials };
    const accounts = { clusters: wanted.definition.clusters, credentials };
    // A service token is valid on this cluster only, so its additions are created with the owner's grant, as the reconciler
    // does.
    const { asking, renew } = isAccount(principal)
      ? credentialsForMembers({ ...caller, principal }, before.service, accounts, deps)
      : { asking: ownerCredentials(before.service, accounts, deps), renew: false };
    const removal =
      intention.verb === 'remove'
        ? { end: intention.end, force: intention.force, named: intention.members }
        : ({ end: 'undo', force: false, named: [] } as const);
    const again = intended.verb === 'add' ? intended.members : [];
    // The service token was authorized above. An update never changes the owner (R16).
    const writer: Admin | User = isAccount(principal) ? principal : { kind: 'admin' };
    const keys = { renew };
    const change = {
      principal: writer,
      before,
      given: wanted,
      credentials,
      asking,
      standIn: asking,
      removal,
      again,
      keys,
    };
    const applied = await applyChange(change, deps);
    const changed = waiting ? await retryPending(applied, change, waiting, deps) : applied;
    if (intention.verb === 'add') await showGrantProblem(changed.record.service, deps);
    return { ...changed, ...(absent.length > 0 && { absent }) };
  });
}

/** Milliseconds. A caller waits for the answer, so the first attempts follow each other quickly. */
const RETRY = { first: 250, longest: 2_000 };

/** Sends a stored change to the members that do not have it, again and again. */
async function retryPending(
  applied: UpdatedMembers,
  change: MembersUpdate,
  signal: AbortSignal,
  deps: Coordination,
): Promise<UpdatedMembers> {
  let latest = applied;
  for (let failures = 1; latest.pending.length > 0; failures++) {
    await pause(backoffDelay(failures, RETRY, Math.random()), undefined, { signal }).catch(() => {});
    const { federation } = latest.record.service;
    if (signal.aborted || !federation) return latest;
    latest = await updateMembers(federation.uid, latest.record, change, deps);
  }
  return latest;
}

/**
 * Redeems the token of a service that had no members before, so that its status shows at once if the token is not valid.
 * Members that were added stay: another refresh token may follow.
 */
async function showGrantProblem(service: Service, { refreshTokens }: Coordination): Promise<void> {
  if (!refreshTokens || service.owner === CLUSTER_ADMIN) return;
  const late = pause(LONGEST_PROOF, undefined, { ref: false });
  await Promise.race([refreshTokens.proveGrantOf(service).catch(() => {}), late]);
}

/** Milliseconds. An issuer that is slower is waited for in the background. */
const LONGEST_PROOF = 3_000;

/**
 * A worker belongs to the account that requests it, and must belong to the owner of the federation
 * (docs/federation.md#trust). So if the administrator changes a user's federation, its members are created with the owner's
 * grant.
 */
function credentialsForMembers(
  caller: Caller,
  service: Service,
  accounts: Parameters<typeof ownerCredentials>[1],
  deps: Coordination,
) {
  if (owns(caller.principal, service)) return { asking: callerCredentials(caller, accounts, deps), renew: true };
  return { asking: ownerCredentials(service, accounts, deps), renew: deps.getOwnerToken !== undefined };
}

/** Checked before anything is written: what a change records about members must not remain if the change is rejected. */
function requireVersion({ service, version }: ServiceRecord, ifMatch: Version | undefined): void {
  if (ifMatch !== undefined && ifMatch !== version) throw oldVersion(service.definition.name);
}

/** A leaving member is no longer listed, but a request can still name it to end it at once or to detach it. */
async function findAbsent({ service }: ServiceRecord, intention: MembersChange, deps: Coordination): Promise<string[]> {
  const { members = [] } = service.definition.federation ?? {};
  const unlisted = withoutMembers(listNamedMembers(intention), members);
  if (unlisted.length === 0 || intention.verb !== 'remove') return unlisted.map(memberName);
  const entry = service.federation && (await new Ledgers(deps).read(service.federation.uid));
  const leaving = new Set(entry?.ledger.members.map(memberId));
  return unlisted.map(memberName).filter((name) => !leaving.has(name));
}

const isAllOf = (intention: MembersChange, absent: readonly string[]) =>
  !intention.clusters && !intention.storageProviders && absent.length === listNamedMembers(intention).length;

const isAccount = (principal: Principal): principal is Admin | User => principal.kind !== 'service-token';

function isPlainAddition({ verb, clusters, storageProviders, ...rest }: MembersChange): boolean {
  if (verb !== 'add' || clusters || storageProviders) return false;
  const { members } = rest as { members: readonly Replica[] };
  return members.every(({ type, headers }) => type !== 'endpoint' && Object.keys(headers).length === 0);
}

/** Existing members are not changed. */
function withoutKnownMembers(intention: MembersChange, current: readonly Replica[]): MembersChange {
  if (intention.verb !== 'add') return intention;
  return {
    ...intention,
    members: withoutMembers(intention.members, current),
  };
}

/**
 * A new member on a cluster that neither the operator nor the definition names is an error. In a complete definition, every
 * problem with the address of its cluster is one.
 */
function rejectClusters(
  isError: (member: DesiredMember) => boolean,
  given: ReadDefinition,
  stored: readonly Replica[],
  deps: Coordination,
): void {
  const added = desiredMembers(given, deps).filter(
    ({ clusterId, service }) => !stored.some((each) => each.cluster_id === clusterId && each.service_name === service),
  );
  const problems = new Set(added.filter(isError).flatMap(({ problem }) => problem ?? []));
  if (problems.size > 0) throw new FederationError('invalid-federation', [...problems].join('\n'));
}

/** Concurrent changes run one after another: a change that lost the race reads the service again. */
async function retryOnConflict<T>(ifMatch: Version | undefined, attempt: () => Promise<T>): Promise<T> {
  for (let attempts = 1; ; attempts++) {
    try {
      return await attempt();
    } catch (error) {
      if (ifMatch !== undefined || attempts === ATTEMPTS || !isLostRace(error)) throw error;
    }
  }
}

function isLostRace(error: unknown): boolean {
  return (
    isWriteConflict(error) || (error instanceof OscarError && (error.code === 'old-version' || error.code === 'exists'))
  );
}

/** One change of a service as it was read. */
interface Change extends MembersUpdate {
  readonly principal: Admin | User;
  readonly before: ServiceRecord;
  readonly given: ReadDefinition;
  /** The stored credentials and those of the request. */
  readonly credentials: ReadDefinition['secrets']['credentials'];
  readonly removal: Removal;
  /** Members that the request adds. They are created again even if their owner had deleted them. */
  readonly again: readonly Replica[];
}

/** How members that the definition no longer names are ended. */
interface Removal {
  readonly end: 'undo' | 'detach';
  /** End them at once, even if they have jobs. */
  readonly force: boolean;
  /** The members that the request names. Other members that are already leaving keep their earlier setting. */
  readonly named: readonly Replica[] | 'all';
}

/**
 * Stores the next revision of a service by compare-and-swap, and sends it to the members. What recovery needs if this
 * manager stops in between is written to the ledger first.
 */
async function applyChange(change: Change, deps: Coordination): Promise<UpdatedMembers> {
  const { principal, before, given, credentials } = change;
  const { federation: role } = before.service;
  const members = given.definition.federation?.members ?? [];
  checkChange(given, credentials, deps);
  if (role?.role !== 'coordinator' && members.length === 0) {
    return { record: await deps.own.update(principal, given, before.version, role), pending: [] };
  }

  const entry = await openLedger(before, deps);
  const { uid } = entry.ledger;
  try {
    requireLedgerCapacity(entry.ledger, desiredMembers(given, deps));
  } catch (error) {
    if (!role) await discardLedger(entry, deps);
    throw error;
  }
  await recordEnds(entry, change, deps);
  const revision = Math.max(role?.revision ?? 0, entry.ledger.revision) + 1;
  const record = await deps.own
    .update(principal, given, before.version, { role: 'coordinator', uid, revision, committed: true })
    .catch(async (error) => {
      if (!role) await discardLedger(entry, deps);
      throw error;
    });
  return updateMembers(uid, record, change, deps);
}

/** Checks what needs no request to a member. */
function checkChange({ definition }: ReadDefinition, credentials: Change['credentials'], deps: Coordination): void {
  const problems = memberProblems(definition, originClusterId({ definition }, deps), deps.mostMembers);
  if (problems.length > 0) throw new FederationError('invalid-federation', problems.join('\n'));
  if ((definition.federation?.members ?? []).length > 0) requireGrant(credentials);
}

/** The ledger of a service. A service that had no members gets a new ledger, before its record names it. */
async function openLedger(before: ServiceRecord, deps: Coordination): Promise<LedgerEntry> {
  return (await readLedger(before, deps)) ?? new Ledgers(deps).begin(newLedgerFor(before, deps));
}

function newLedgerFor({ service }: ServiceRecord, deps: Coordination): Ledger {
  const { federation: role, definition, uid: serviceUid } = service;
  const uid = role?.uid ?? deps.newUid();
  const begunAt = deps.now();
  return { uid, service: definition.name, serviceUid, phase: 'active', revision: 0, begunAt, members: [] };
}

/** The ledger of a service that can be changed now; undefined if it has none. */
async function readLedger({ service }: ServiceRecord, deps: Coordination): Promise<LedgerEntry | undefined> {
  const { federation: role, definition } = service;
  if (role?.role === 'worker') {
    throw new FederationError(
      'not-the-coordinator',
      `"${definition.name}" is part of a federation whose coordinator is ${role.origin.service} at ${role.origin.endpoint}: change it there`,
    );
  }
  const entry = role && (await new Ledgers(deps).read(role.uid));
  if (entry?.ledger.phase === 'creating') {
    throw new FederationError('origin-away', `the members of "${definition.name}" are still being created: try again`);
  }
  if (entry?.ledger.phase === 'ending' || (role && !entry && !role.committed)) {
    throw new FederationError('federation-gone', `"${definition.name}" is being removed`);
  }
  return entry;
}

/** No record names this ledger, so nothing was created from it. */
async function discardLedger(entry: LedgerEntry, deps: Coordination): Promise<void> {
  await new Ledgers(deps).finish(entry).catch((error) => {
    if (!isWriteConflict(error)) throw error;
  });
}

/**
 * Records what the definition does not contain, before the definition changes: how leaving members are ended, and which
 * members that their owners deleted are created again.
 */
async function recordEnds(
  { ledger: { uid } }: LedgerEntry,
  { given, removal, again }: Change,
  deps: Coordination,
): Promise<void> {
  const staying = new Set(deployedMembers(given.definition.federation?.members).map(replicaId));
  const returning = new Set(again.map(replicaId));
  const forgotten: string[] = [];
  await new Ledgers(deps).amend(uid, (ledger) => {
    const members = ledger.members.flatMap((member) => {
      const id = memberId(member);
      if (member.state === 'left' && returning.has(id)) {
        forgotten.push(...listKeyIds(member));
        return [];
      }
      return staying.has(id) ? [member] : [toEndedMember(removal, member)];
    });
    return isDeepStrictEqual(members, ledger.members) ? ledger : { ...ledger, members };
  });
  await deleteKeys(forgotten, deps);
}

function toEndedMember({ end, force, named }: Removal, member: LedgerMember): LedgerMember {
  const isNamed = named === 'all' || named.some((each) => replicaId(each) === memberId(member));
  if (member.state === 'undoing' || (member.state === 'leaving' && !isNamed)) return member;
  const { force: _, ...known } = member;
  return { ...known, end, ...(force && { force }) };
}

const replicaId = ({ cluster_id, service_name }: Replica) => `${cluster_id}/${service_name}`;

/** The stored definition and its secrets. */
interface Stored {
  readonly definition: Definition;
  readonly secrets: DefinitionSecrets;
}

const TOKEN = 'refresh_token';

/** A complete definition that replaces another. If it has no members, the stored members stay. */
function parseReplacement(body: unknown, stored: Stored): ReadDefinition {
  return keepToken(keepMembers(body, stored), stored);
}

/** Before a service had a federation, its refresh token was an ordinary secret of the service: a blank value keeps it. */
function keepToken(given: ReadDefinition, { definition, secrets }: Stored): ReadDefinition {
  const token = secrets.environment[TOKEN];
  const { federation, environment } = given.definition;
  const brought = given.secrets.credentials[REFRESH_TOKEN_SLOT];
  const isBlank = Object.hasOwn(environment.secrets, TOKEN) && (!brought || brought.equals(''));
  if (!federation || definition.federation || !token || !isBlank) return given;
  const credentials = { ...given.secrets.credentials, [REFRESH_TOKEN_SLOT]: token };
  return { ...given, secrets: { ...given.secrets, credentials } };
}

function keepMembers(body: unknown, { definition: stored }: Stored): ReadDefinition {
  const given = readDefinition(body);
  const federation = given.definition.federation ?? stored.federation;
  const isSilent = (given.definition.federation?.members ?? []).length === 0;
  if (!federation || !isSilent) return given;
  const { members } = stored.federation ?? {};
  const others = Object.entries(body as object).filter(([key]) => key.toLowerCase() !== 'federation');
  const whole = { ...Object.fromEntries(others), federation: { ...federation, ...(members && { members }) } };
  return readDefinition(whole);
}

/** The stored definition with changed members. */
function applyToDefinition(intention: MembersChange, { definition, secrets }: Stored): ReadDefinition {
  const { federation, clusters, storage_providers, environment } = definition;
  const token = secrets.environment[TOKEN];
  // Before a service had a federation, its refresh token was an ordinary secret of the service.
  const values = federation || !token ? {} : { [TOKEN]: token.reveal() };
  return readDefinition({
    ...definition,
    environment: { ...environment, secrets: { ...environment.secrets, ...values } },
    federation: { ...federation, members: applyMembersChange(intention, federation?.members ?? []) },
    clusters: { ...clusters, ...intention.clusters },
    storage_providers: mergeProviders(storage_providers, intention.storageProviders),
  });
}

function mergeProviders(stored: StorageProviders = {}, given: StorageProviders = {}): StorageProviders {
  const types = new Set([...Object.keys(stored), ...Object.keys(given)]) as Set<keyof StorageProviders>;
  return Object.fromEntries([...types].map((type) => [type, { ...stored[type], ...given[type] }]));
}
