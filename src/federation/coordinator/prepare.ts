import type { Admin, User } from '../../identity/index.ts';
import type { Secret } from '../../lib/secret.ts';
import { GRANT_SLOT, REFRESH_TOKEN_SLOT, type Replica, type Service } from '../../model/service/index.ts';
import { FederationError, memberKeyId, type WorkerOrder } from '../../peers/index.ts';
import { loadSecrets, toSecretsOwner } from '../../services/index.ts';
import { memberProblems } from '../topology.ts';
import { alignLedger, type DesiredMember, endIdleMembers } from './align.ts';
import type { Coordination, ReadDefinition } from './coordination.ts';
import {
  isWriteConflict,
  type Ledger,
  type LedgerEntry,
  type LedgerMember,
  Ledgers,
  listKeyIds,
  memberId,
} from './ledger.ts';
import { toStoredAddress } from './member-access.ts';
import { deleteKeys, readKey, storeKeys } from './member-keys.ts';
import { buildOrders, isCurrent, originClusterId } from './orders.ts';

export interface PreparedChange {
  readonly entry: LedgerEntry;
  readonly service: Service;
  /** The other secrets of the definition, for requests to other clusters. */
  readonly credentials: Readonly<Record<string, Secret>>;
  readonly orders: ReadonlyMap<string, WorkerOrder>;
  /** Next keys of members, by the ids of their current keys. */
  readonly next: ReadonlyMap<string, Secret>;
}

export interface KeyRenewal {
  /** Whether credentials are available to create a member again with another key. */
  readonly renew: boolean;
  readonly rekey?: (member: LedgerMember) => boolean;
}

/**
 * Records the desired members of a service in the ledger, before any of them gets a request. The ledger names a new key
 * first, then the key is stored, and a last compare-and-swap ensures that no other manager treated the key as lost in
 * between. Returns undefined if another manager is changing this ledger, or has a later definition.
 */
export async function prepareChange(
  entry: LedgerEntry,
  service: Service,
  { renew, rekey }: KeyRenewal,
  deps: Coordination,
): Promise<PreparedChange | undefined> {
  const { revision = 0 } = service.federation ?? {};
  if (revision < entry.ledger.revision) return undefined;
  const known = await loadKeys(entry, deps);
  const added = new Map<string, Secret>();
  const ledger = alignLedger(entry.ledger, {
    revision,
    wanted: desiredMembers(service, deps),
    lostKeyIds: new Set(entry.ledger.members.flatMap(listKeyIds).filter((id) => !known.has(id))),
    renew,
    ...(rekey && { rekey }),
    newKeyId: () => {
      const key = deps.newKey();
      added.set(memberKeyId(key), key);
      return memberKeyId(key);
    },
    now: deps.now(),
  });
  const written = ledger === entry.ledger ? entry : await new Ledgers(deps).advance(entry, ledger);
  await storeKeys(added, deps);
  const held = await claimLedger(written, deps);
  if (!held) {
    await deleteUnnamedKeys(ledger.uid, added.keys(), deps);
    return undefined;
  }
  const secrets = await loadSecrets(toSecretsOwner(service), deps);
  const keys = new Map([...known, ...added]);
  const orders = buildOrders(service, secrets.environment, held.ledger, keys, deps);
  const next = held.ledger.members.flatMap(({ keyId, nextKeyId = '' }) => {
    const key = keys.get(nextKeyId);
    return key ? [[keyId, key] as const] : [];
  });
  return { entry: held, service, credentials: secrets.credentials, orders, next: new Map(next) };
}

/**
 * Marks leaving members without jobs for their end. Of all managers that reach this point with the same version, one
 * continues.
 */
async function claimLedger(entry: LedgerEntry, deps: Coordination): Promise<LedgerEntry | undefined> {
  const ledgers = new Ledgers(deps);
  const working = await membersWithJobs(entry.ledger, deps);
  const dismissed = endIdleMembers(entry.ledger, (member) => working.has(member));
  if (dismissed === entry.ledger) return ledgers.claim(entry);
  try {
    return await ledgers.advance(entry, dismissed);
  } catch (error) {
    if (isWriteConflict(error)) return undefined;
    throw error;
  }
}

/** The manager that was faster may use keys that the ledger names. Other keys are useless. */
async function deleteUnnamedKeys(uid: string, keyIds: Iterable<string>, deps: Coordination): Promise<void> {
  const current = await new Ledgers(deps).read(uid);
  const named = new Set(current?.ledger.members.flatMap(listKeyIds));
  await deleteKeys(
    [...keyIds].filter((id) => !named.has(id)),
    deps,
  );
}

async function loadKeys({ ledger }: LedgerEntry, deps: Coordination): Promise<Map<string, Secret>> {
  const ids = ledger.members.filter(isCurrentOrLeaving).flatMap(listKeyIds);
  const keys = await Promise.all(ids.map(async (id) => [id, await readKey(id, deps)] as const));
  return new Map(keys.flatMap(([id, key]) => (key ? [[id, key]] : [])));
}

const isCurrentOrLeaving = (member: LedgerEntry['ledger']['members'][number]) =>
  isCurrent(member) || member.state === 'leaving';

export function desiredMembers(
  { definition }: Pick<Service, 'definition'>,
  deps: Pick<Coordination, 'resolve'>,
): DesiredMember[] {
  return deployedMembers(definition.federation?.members).map(({ cluster_id, service_name }) => {
    const resolved = deps.resolve(cluster_id, definition.clusters);
    const found = 'problem' in resolved ? resolved : { address: toStoredAddress(resolved.address) };
    return { clusterId: cluster_id, service: service_name, ...found };
  });
}

/** A member of type `endpoint` is just a URL; nothing is deployed there (F18). */
export const deployedMembers = (members: readonly Replica[] | undefined): Replica[] =>
  (members ?? []).filter(({ type }) => type === 'oscar');

/**
 * How long a leaving member may keep running its jobs. A smaller value loses long jobs; a larger one keeps members that
 * hang.
 */
const LONGEST_DRAIN = 24 * 3_600_000;

/**
 * The leaving members that still have jobs. A member whose jobs cannot be counted now is treated as having some, and is
 * checked again later.
 */
async function membersWithJobs(
  { serviceUid, members }: Ledger,
  { outstanding, now }: Pick<Coordination, 'outstanding' | 'now'>,
): Promise<ReadonlySet<LedgerMember>> {
  const may = members.filter(
    ({ state, force, since }) => state === 'leaving' && !force && now() - since < LONGEST_DRAIN,
  );
  const working = await Promise.all(
    may.map(async (member) => {
      const jobs = await outstanding?.(serviceUid, memberId(member)).catch(() => 1);
      return (jobs ?? 0) > 0 ? [member] : [];
    }),
  );
  return new Set(working.flat());
}

/** Checks the members of a definition without any request, and throws all problems at once. */
export function checkMembers({ definition }: Pick<ReadDefinition, 'definition'>, deps: Coordination): DesiredMember[] {
  const wanted = desiredMembers({ definition }, deps);
  const problems = [
    ...memberProblems(definition, originClusterId({ definition }, deps), deps.mostMembers),
    ...new Set(wanted.flatMap(({ problem }) => problem ?? [])),
  ];
  if (problems.length > 0) throw new FederationError('invalid-federation', problems.join('\n'));
  return wanted;
}

/** Runs an operation that stores the refresh token. If it fails, the token can be sent again. */
type WhileRetained = <T>(work: () => Promise<T>) => Promise<T>;

/**
 * Makes sure that the refresh token of a definition is valid and the caller's own, before anything is created with it. The
 * administrator's tokens are not used (docs/invoking-async.md#the-refresh-token).
 */
export async function proveToken(
  principal: Admin | User,
  { [REFRESH_TOKEN_SLOT]: token }: ReadDefinition['secrets']['credentials'],
  { refreshTokens }: Pick<Coordination, 'refreshTokens'>,
): Promise<WhileRetained> {
  if (!refreshTokens || !token || principal.kind !== 'user') return (work) => work();
  const proof = await refreshTokens.proveToken(token, principal);
  // A token that stays retained expires.
  const release = () => refreshTokens.releaseToken(token).catch(() => {});
  return async (work) => {
    try {
      const done = await work();
      await release();
      return done;
    } catch (error) {
      // The issuer has spent the token that the user has, so the one that replaced it is kept for the next attempt.
      if (proof === 'unchecked') await release();
      throw error;
    }
  };
}

/** A federation acts for its owner in the owner's absence, so it needs a refresh token before it has members. */
export function requireGrant(credentials: ReadDefinition['secrets']['credentials']): void {
  const { [REFRESH_TOKEN_SLOT]: brought, [GRANT_SLOT]: kept } = credentials;
  if (kept || (brought && brought.reveal().trim() !== '')) return;
  throw new FederationError(
    'no-grant',
    'environment.secrets.refresh_token is required for a service with members: get one from your identity provider with the scope offline_access, for instance with oidc-agent or `oscar login`',
  );
}
