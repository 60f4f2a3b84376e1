import { OscarError } from '../base/oscar-error.ts';
import { findService, loadSecrets, oldVersion, ownerOfSecrets } from '../catalog/index.ts';
import type { ServiceRecord, Version } from '../cluster/index.ts';
import type { Admin, Principal, User } from '../identity/index.ts';
import { readDefinition, type Service } from '../service/index.ts';
import type { Replica } from '../service/schema.ts';
import { applyChange } from './coordinator/apply-change.ts';
import { changedBy, replacedBy } from './coordinator/changed-definition.ts';
import type { Caller, Coordination, ReadDefinition } from './coordinator/coordination.ts';
import { asCaller, asNobody, asOwner } from './coordinator/member/asking.ts';
import { wantedBy } from './coordinator/prepare.ts';
import type { Told } from './coordinator/tell-members.ts';
import { clustersWithoutAccounts } from './coordinator/without-accounts.ts';
import { FederationError } from './errors.ts';
import { memberId } from './ledger.ts';
import { isOvertaken, Ledgers } from './ledger-store.ts';
import { type Intention, namedBy, nameOf } from './members.ts';
import { isSame } from './topology.ts';
import { isOwner as owns } from './worker/probe.ts';

export interface Changed extends Told {
  /** What was named to be changed or removed, and is no member. */
  readonly absent?: readonly string[];
}

/** Enough for any burst of writers to one service; more would be a fault, not contention. */
const ATTEMPTS = 8;

/**
 * Replaces the definition of a service, at all its members (design §7). The next revision is stored here first, under the
 * version that was read; members that cannot have it now get it later.
 */
export async function changeService(
  caller: Caller,
  body: unknown,
  ifMatch: Version | undefined,
  deps: Coordination,
): Promise<Changed> {
  const { name } = readDefinition(body).definition;
  return inTurn(ifMatch, async () => {
    const before = await findService(caller.principal, 'update', name, deps);
    refuseOld(before, ifMatch);
    const stored = {
      definition: before.service.definition,
      secrets: await loadSecrets(ownerOfSecrets(before.service), deps),
    };
    const given = replacedBy(body, stored);
    const credentials = { ...stored.secrets.credentials, ...given.secrets.credentials };
    refuseUnknown(given, stored.definition.federation?.members ?? [], deps);
    const accounts = { clusters: given.definition.clusters, credentials };
    const { asking, renew } = askingFor(caller, before.service, accounts, deps);
    const removal = { end: 'undo', force: false, named: [] } as const;
    const keys = { renew, rekey: () => renew };
    const { principal } = caller;
    return applyChange(
      { principal, before, given, credentials, asking, standIn: asking, removal, again: [], keys },
      deps,
    );
  });
}

/** Whoever may change members: with the token of a service alone, they can only be added (design §6). */
export type MembersCaller = Caller | { readonly principal: Principal };

/**
 * Adds, changes or removes members. That a cluster is unknown, away or refuses is no error here: such a member is written
 * down and made as soon as it can be. What is named to be changed or removed and is no member is told, and changes nothing.
 */
export async function changeMembers(
  caller: MembersCaller,
  name: string,
  given: Intention,
  deps: Coordination,
  ifMatch?: Version,
): Promise<Changed> {
  const { principal } = caller;
  const intention = clustersWithoutAccounts(principal, given);
  return inTurn(ifMatch, async () => {
    const before = await findService(
      principal,
      isPlainAddition(intention) ? 'add-member' : 'change-federation',
      name,
      deps,
    );
    refuseOld(before, ifMatch);
    const absent = await absentFrom(before, intention, deps);
    if (absent.length > 0 && isAllOf(intention, absent)) return { record: before, pending: [], absent };
    const { definition } = before.service;
    const stored = { definition, secrets: await loadSecrets(ownerOfSecrets(before.service), deps) };
    const intended = isOwner(principal) ? intention : onlyNew(intention, definition.federation?.members ?? []);
    const changed = changedBy(intended, stored);
    const credentials = { ...stored.secrets.credentials, ...changed.secrets.credentials };
    const accounts = { clusters: changed.definition.clusters, credentials };
    const { asking, renew } = isOwner(principal)
      ? askingFor({ ...caller, principal }, before.service, accounts, deps)
      : { asking: asNobody, renew: false };
    const standIn = isOwner(principal) ? asking : asOwner(before.service, accounts, deps);
    const removal =
      intention.verb === 'remove'
        ? { end: intention.end, force: intention.force, named: intention.members }
        : ({ end: 'undo', force: false, named: [] } as const);
    const again = intended.verb === 'add' ? intended.members : [];
    // Whoever holds the token was let in above; the catalog keeps the owner, whoever writes (R16).
    const writer: Admin | User = isOwner(principal) ? principal : { kind: 'admin' };
    const keys = { renew };
    const change = { principal: writer, before, given: changed, credentials, asking, standIn, removal, again, keys };
    return { ...(await applyChange(change, deps)), ...(absent.length > 0 && { absent }) };
  });
}

/**
 * A worker belongs to whoever asks for it, and a federation's to its owner (design §8): the administrator who changes that of
 * a user leaves its members to the owner's own grant.
 */
function askingFor(caller: Caller, service: Service, accounts: Parameters<typeof asOwner>[1], deps: Coordination) {
  if (owns(caller.principal, service)) return { asking: asCaller(caller, accounts, deps), renew: true };
  return { asking: asOwner(service, accounts, deps), renew: deps.mint !== undefined };
}

/** Before anything is written down: what a change says about members must not outlive it. */
function refuseOld({ service, version }: ServiceRecord, ifMatch: Version | undefined): void {
  if (ifMatch !== undefined && ifMatch !== version) throw oldVersion(service.definition.name);
}

/** One that is leaving is no member any more, and can still be told to go at once, or to stay as it is. */
async function absentFrom({ service }: ServiceRecord, intention: Intention, deps: Coordination): Promise<string[]> {
  const { members = [] } = service.definition.federation ?? {};
  const unlisted = namedBy(intention).filter((named) => !members.some((member) => isSame(member, named)));
  if (unlisted.length === 0 || intention.verb !== 'remove') return unlisted.map(nameOf);
  const entry = service.federation && (await new Ledgers(deps).read(service.federation.uid));
  const leaving = new Set(entry?.ledger.members.map(memberId));
  return unlisted.map(nameOf).filter((name) => !leaving.has(name));
}

const isAllOf = (intention: Intention, absent: readonly string[]) =>
  !intention.clusters && !intention.storageProviders && absent.length === namedBy(intention).length;

const isOwner = (principal: Principal): principal is Admin | User => principal.kind !== 'service-token';

function isPlainAddition({ verb, clusters, storageProviders, ...rest }: Intention): boolean {
  if (verb !== 'add' || clusters || storageProviders) return false;
  const { members } = rest as { members: readonly Replica[] };
  return members.every(({ type, headers }) => type !== 'endpoint' && Object.keys(headers).length === 0);
}

/** A member that is there already stays as it is. */
function onlyNew(intention: Intention, current: readonly Replica[]): Intention {
  if (intention.verb !== 'add') return intention;
  return {
    ...intention,
    members: intention.members.filter((member) => !current.some((other) => isSame(other, member))),
  };
}

/** In a whole definition, a new member on a cluster that nobody knows is a mistake. */
function refuseUnknown(given: ReadDefinition, stored: readonly Replica[], deps: Coordination): void {
  const added = wantedBy(given, deps).filter(
    ({ clusterId, service }) => !stored.some((each) => each.cluster_id === clusterId && each.service_name === service),
  );
  const problems = new Set(added.flatMap(({ problem }) => problem ?? []));
  if (problems.size > 0) throw new FederationError('invalid-federation', [...problems].join('\n'));
}

/** Concurrent changes are made one after the other: who comes too late reads again. */
async function inTurn<T>(ifMatch: Version | undefined, attempt: () => Promise<T>): Promise<T> {
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
    isOvertaken(error) || (error instanceof OscarError && (error.code === 'old-version' || error.code === 'exists'))
  );
}
