import { isDeepStrictEqual } from 'node:util';
import type { Admin, Principal, User } from '../../identity/index.ts';
import { OscarError } from '../../lib/oscar-error.ts';
import type { Version } from '../../lib/version.ts';
import {
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
import { clustersWithoutAccounts, findService, loadSecrets, oldVersion, toSecretsOwner } from '../../services/index.ts';
import { applyMembersChange, listNamedMembers, type MembersChange, memberName, withoutMembers } from '../members.ts';
import { isOwner as owns } from '../ownership.ts';
import { memberProblems } from '../topology.ts';
import { requireLedgerCapacity } from './align.ts';
import type { Caller, Coordination, ReadDefinition } from './coordination.ts';
import { isWriteConflict, type LedgerEntry, type LedgerMember, Ledgers, listKeyIds, memberId } from './ledger.ts';
import { callerCredentials, ownerCredentials } from './member-access.ts';
import { deleteKeys } from './member-keys.ts';
import { originClusterId } from './orders.ts';
import { deployedMembers, desiredMembers, requireGrant } from './prepare.ts';
import { type MembersUpdate, type UpdatedMembers, updateMembers } from './update-members.ts';

export interface ChangedFederation extends UpdatedMembers {
  /** What was named to be changed or removed, and is no member. */
  readonly absent?: readonly string[];
}

/** Enough for any burst of writers to one service; more would be a fault, not contention. */
const ATTEMPTS = 8;

/**
 * Replaces the definition of a service, at all its members (docs/federation.md#update). The next revision is stored
 * here first, under the version that was read; members that cannot have it now get it later.
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
    const stored = {
      definition: before.service.definition,
      secrets: await loadSecrets(toSecretsOwner(before.service), deps),
    };
    const given = parseReplacement(body, stored);
    const credentials = { ...stored.secrets.credentials, ...given.secrets.credentials };
    rejectUnknownClusters(given, stored.definition.federation?.members ?? [], deps);
    const accounts = { clusters: given.definition.clusters, credentials };
    const { asking, renew } = credentialsForMembers(caller, before.service, accounts, deps);
    const removal = { end: 'undo', force: false, named: [] } as const;
    const keys = { renew, rekey: () => renew };
    const { principal } = caller;
    return applyChange(
      { principal, before, given, credentials, asking, standIn: asking, removal, again: [], keys },
      deps,
    );
  });
}

/**
 * Whoever may change members: with the token of a service alone, they can only be added (docs/federation.md#members).
 */
type MembersCaller = Caller | { readonly principal: Principal };

/**
 * Adds, changes or removes members. That a cluster is unknown, away or refuses is no error here: such a member is written
 * down and made as soon as it can be. What is named to be changed or removed and is no member is told, and changes nothing.
 */
export async function changeMembers(
  caller: MembersCaller,
  name: string,
  given: MembersChange,
  deps: Coordination,
  ifMatch?: Version,
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
    const changed = applyToDefinition(intended, stored);
    const credentials = { ...stored.secrets.credentials, ...changed.secrets.credentials };
    const accounts = { clusters: changed.definition.clusters, credentials };
    // The token of a service is good here alone: what it adds is made with what its owner left, as `reconcile` would.
    const { asking, renew } = isAccount(principal)
      ? credentialsForMembers({ ...caller, principal }, before.service, accounts, deps)
      : { asking: ownerCredentials(before.service, accounts, deps), renew: false };
    const removal =
      intention.verb === 'remove'
        ? { end: intention.end, force: intention.force, named: intention.members }
        : ({ end: 'undo', force: false, named: [] } as const);
    const again = intended.verb === 'add' ? intended.members : [];
    // Whoever holds the token was let in above; the catalog keeps the owner, whoever writes (R16).
    const writer: Admin | User = isAccount(principal) ? principal : { kind: 'admin' };
    const keys = { renew };
    const change = {
      principal: writer,
      before,
      given: changed,
      credentials,
      asking,
      standIn: asking,
      removal,
      again,
      keys,
    };
    return { ...(await applyChange(change, deps)), ...(absent.length > 0 && { absent }) };
  });
}

/**
 * A worker belongs to whoever asks for it, and a federation's to its owner (docs/federation.md#trust): the
 * administrator who changes that of a user leaves its members to the owner's own grant.
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

/** Before anything is written down: what a change says about members must not outlive it. */
function requireVersion({ service, version }: ServiceRecord, ifMatch: Version | undefined): void {
  if (ifMatch !== undefined && ifMatch !== version) throw oldVersion(service.definition.name);
}

/** One that is leaving is no member any more, and can still be told to go at once, or to stay as it is. */
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

/** A member that is there already stays as it is. */
function withoutKnownMembers(intention: MembersChange, current: readonly Replica[]): MembersChange {
  if (intention.verb !== 'add') return intention;
  return {
    ...intention,
    members: withoutMembers(intention.members, current),
  };
}

/** In a whole definition, a new member on a cluster that nobody knows is a mistake. */
function rejectUnknownClusters(given: ReadDefinition, stored: readonly Replica[], deps: Coordination): void {
  const added = desiredMembers(given, deps).filter(
    ({ clusterId, service }) => !stored.some((each) => each.cluster_id === clusterId && each.service_name === service),
  );
  const problems = new Set(added.flatMap(({ problem }) => problem ?? []));
  if (problems.size > 0) throw new FederationError('invalid-federation', [...problems].join('\n'));
}

/** Concurrent changes are made one after the other: who comes too late reads again. */
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
async function applyChange(change: Change, deps: Coordination): Promise<UpdatedMembers> {
  const { principal, before, given, credentials } = change;
  const { definition } = given;
  const { federation: role } = before.service;
  const members = definition.federation?.members ?? [];
  const problems = memberProblems(definition, originClusterId({ definition }, deps), deps.mostMembers);
  if (problems.length > 0) throw new FederationError('invalid-federation', problems.join('\n'));
  if (members.length > 0) requireGrant(credentials);
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
async function discardLedger(entry: LedgerEntry, deps: Coordination): Promise<void> {
  await new Ledgers(deps).finish(entry).catch((error) => {
    if (!isWriteConflict(error)) throw error;
  });
}

/**
 * What the definition cannot say is written down before it changes: how members that leave are ended, and which of those
 * that their owners ended are to be made again.
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

/** What is stored, with its secrets. */
interface Stored {
  readonly definition: Definition;
  readonly secrets: DefinitionSecrets;
}

const TOKEN = 'refresh_token';

/** A whole definition in place of another: without members in it they stay as they are. */
function parseReplacement(body: unknown, stored: Stored): ReadDefinition {
  return keepToken(keepMembers(body, stored), stored);
}

/** Until it had a federation, a refresh token was like any other secret of the service: left blank, it is kept. */
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

/** The stored definition with other members. */
function applyToDefinition(intention: MembersChange, { definition, secrets }: Stored): ReadDefinition {
  const { federation, clusters, storage_providers, environment } = definition;
  const token = secrets.environment[TOKEN];
  // Until it had a federation, a refresh token was like any other secret of the service.
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
