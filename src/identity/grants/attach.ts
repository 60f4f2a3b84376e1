import { setTimeout as pause } from 'node:timers/promises';
import { Secret } from '../../lib/secret.ts';
import { CLUSTER_ADMIN, GRANT_SLOT, REFRESH_TOKEN_SLOT, type Service } from '../../model/service/index.ts';
import { isRace, StoreError } from '../../ports/index.ts';
import { GrantError } from './errors.ts';
import {
  dropGrant,
  type Grant,
  type GrantRecord,
  isAlive,
  readGrant,
  tokenHash,
  type Vault,
  writeGrant,
} from './grant.ts';
import {
  addHolding,
  dropHolding,
  findTokenEntry,
  isBeingRemoved,
  putTokenEntry,
  readHoldings,
  removeTokenEntry,
  replaceHoldings,
  type TokenEntry,
} from './holdings.ts';

/** Who sends a refresh token: the administrator or an authenticated user. */
export type Submitter = { readonly kind: 'admin' } | Person;

interface Person {
  readonly kind: 'user';
  readonly uid: string;
  readonly issuer?: string | undefined;
}

/** More than the services that one user creates at the same time; in each round one of them succeeds. */
const ATTEMPTS = 100;

/** A removal, or a concurrent attach, takes two requests to the store. */
const FIRST_WAIT_MS = 5;

/** Shorter: many concurrent requests with one token conflict again and again. Longer: the last of a few waits needlessly. */
const LONGEST_WAIT_MS = 50;

/** Random, so that requests that conflicted once do not conflict again. */
const waitBefore = (attempt: number) => Math.random() * Math.min(FIRST_WAIT_MS * (attempt - 1), LONGEST_WAIT_MS);

/**
 * Stores a refresh token in the vault for a service and returns the id of its grant. If the token is known, the service
 * joins its grant, provided that the same user sends it; otherwise the token is rejected and not stored. Calling it again is
 * a no-op.
 *
 * `detachGrants` removes the service from all grants but the one in its slot.
 */
export async function attachGrant(token: Secret, submitter: Submitter, service: string, vault: Vault): Promise<string> {
  const hash = tokenHash(token);
  const tried = new Set<string>();
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    if (attempt > 2) await pause(waitBefore(attempt));
    const entry = await findTokenEntry(hash, vault);
    const found = entry && (await readGrant(entry.grant, vault));
    try {
      if (found && isAlive(found.grant)) {
        tried.add(found.grant.id);
        return await joinGrant(found, submitter, service, vault);
      }
      if (submitter.kind === 'admin') return await attachLocalGrant(token, service, vault);
      // The next round finds and joins the new grant, unless a concurrent request has replaced or removed it.
      if (!isBeingRemoved(entry, vault.now()))
        await createSharedGrant(token, { owner: submitter.uid, ...toIssuerField(submitter) }, entry, service, vault);
    } catch (error) {
      if (isRace(error)) continue;
      await dropUnusedHoldings(tried, service, vault);
      throw error;
    }
  }
  await dropUnusedHoldings(tried, service, vault);
  throw new StoreError('unavailable', 'too many concurrent requests send this refresh token: try again');
}

/** Removes the holdings of grants that ended before the service could join them. */
async function dropUnusedHoldings(tried: ReadonlySet<string>, service: string, vault: Vault): Promise<void> {
  for (const id of tried) {
    const record = await readGrant(id, vault);
    if (!record?.grant.services.includes(service)) await dropHolding(service, id, vault);
  }
}

/** Writes even if nothing changes, so that a concurrent detach of this service gets a conflict and checks again. */
async function joinGrant({ grant, token, version }: GrantRecord, submitter: Submitter, service: string, vault: Vault) {
  if (!grant.services.includes(service) && !isSubject(grant, submitter)) {
    throw new GrantError(
      'grant-refused',
      'environment.secrets.refresh_token: this token was already sent by another user and was not stored: get your own from your identity provider',
    );
  }
  await addHolding(service, grant.id, vault);
  await writeGrant({ ...grant, services: [...new Set([...grant.services, service])] }, token, version, vault);
  return grant.id;
}

function isSubject(grant: Grant, submitter: Submitter): boolean {
  if (submitter.kind === 'admin' || grant.local) return false;
  if (grant.issuer !== undefined && submitter.issuer !== undefined && grant.issuer !== submitter.issuer) return false;
  return (grant.subject ?? grant.owner) === submitter.uid;
}

const toIssuerField = ({ issuer }: Person) => (issuer === undefined ? {} : { issuer });

async function createSharedGrant(
  token: Secret,
  whose: Pick<Grant, 'owner' | 'issuer'>,
  replaced: TokenEntry | undefined,
  service: string,
  vault: Vault,
): Promise<void> {
  const id = await createGrant(token, { ...whose, local: false }, service, vault);
  try {
    await putTokenEntry(tokenHash(token), id, replaced, vault);
  } catch (error) {
    if (isRace(error)) {
      await dropGrant(id, vault);
      await dropHolding(service, id, vault);
    }
    throw error;
  }
}

/** A local grant has no index entry: no other service can find or join it, and it does not block a user's own token. */
async function attachLocalGrant(token: Secret, service: string, vault: Vault): Promise<string> {
  const { grants } = await readHoldings(service, vault);
  for (const id of grants) {
    const held = await readGrant(id, vault);
    if (held?.grant.local && isAlive(held.grant) && held.token?.equals(token)) {
      return joinGrant(held, { kind: 'admin' }, service, vault);
    }
  }
  return createGrant(token, { owner: CLUSTER_ADMIN, local: true }, service, vault);
}

async function createGrant(
  token: Secret,
  whose: Pick<Grant, 'owner' | 'issuer' | 'local'>,
  service: string,
  vault: Vault,
): Promise<string> {
  const id = vault.newUid();
  await addHolding(service, id, vault);
  const grant: Grant = {
    id,
    ...whose,
    state: 'unproven',
    createdAt: vault.now(),
    lineage: [tokenHash(token)],
    services: [service],
  };
  await writeGrant(grant, token, 'absent', vault);
  return id;
}

/**
 * Removes a service from all grants but the one in its slot; a deleted service has no slot. A grant without services is
 * removed, with its token and the index entries of its lineage. Calling it again is a no-op, and completes a call that was
 * interrupted by a crash.
 */
export async function detachGrants(service: string, vault: Pick<Vault, 'secrets' | 'now'>): Promise<void> {
  for (;;) {
    const holdings = await readHoldings(service, vault);
    if (holdings.version === 'absent') return;
    const kept: string[] = [];
    try {
      for (const id of holdings.grants) {
        if ((await leaveGrant(id, service, vault)) === 'kept') kept.push(id);
      }
      return await replaceHoldings(service, kept, holdings, vault);
    } catch (error) {
      if (!isRace(error)) throw error;
    }
  }
}

/** The slot is read after the grant: a concurrent attach that fills the slot also writes the grant, which is a conflict. */
async function leaveGrant(
  id: string,
  service: string,
  vault: Pick<Vault, 'secrets' | 'now'>,
): Promise<'kept' | 'left'> {
  const record = await readGrant(id, vault);
  if ((await readGrantSlot(service, vault)) === id) return 'kept';
  if (!record) return 'left';
  const { grant, token, version } = record;
  const services = grant.services.filter((uid) => uid !== service);
  if (services.length < grant.services.length) await writeGrant({ ...grant, services }, token, version, vault);
  if (services.length === 0) await removeGrant(grant, vault);
  return 'left';
}

export async function readGrantSlot(service: string, { secrets }: Pick<Vault, 'secrets'>): Promise<string | undefined> {
  return (await secrets.get('credentials', service))?.values[GRANT_SLOT]?.reveal();
}

/** The grant is removed last: a retry after a crash still finds its lineage. */
async function removeGrant({ id, lineage }: Grant, vault: Pick<Vault, 'secrets' | 'now'>): Promise<void> {
  for (const hash of lineage) await removeTokenEntry(hash, id, vault);
  await dropGrant(id, vault);
}

/** Returns the grant of a service, or undefined if it has none. */
export async function findGrant(
  service: Pick<Service, 'uid' | 'owner'>,
  vault: Vault,
): Promise<GrantRecord | undefined> {
  const id = await migrateToken(service, vault);
  return id === undefined ? undefined : readGrant(id, vault);
}

/**
 * Returns the id of the grant. Services that were created before there was a vault store the token itself; it is moved to
 * the vault as its owner's.
 */
async function migrateToken({ uid, owner }: Pick<Service, 'uid' | 'owner'>, vault: Vault): Promise<string | undefined> {
  for (;;) {
    const record = await vault.secrets.get('credentials', uid);
    const { [REFRESH_TOKEN_SLOT]: token, ...others } = record?.values ?? {};
    if (!record || !token) return others[GRANT_SLOT]?.reveal();
    const id = await attachUnlessRefused(token, toSubmitter(owner), uid, vault);
    try {
      const values = { ...others, ...(id !== undefined && { [GRANT_SLOT]: new Secret(id) }) };
      await vault.secrets.put('credentials', uid, values, record.version);
      return id ?? others[GRANT_SLOT]?.reveal();
    } catch (error) {
      if (!isRace(error)) throw error;
    }
  }
}

async function attachUnlessRefused(token: Secret, submitter: Submitter, service: string, vault: Vault) {
  try {
    return await attachGrant(token, submitter, service, vault);
  } catch (error) {
    if (error instanceof GrantError) return undefined;
    throw error;
  }
}

const toSubmitter = (owner: string): Submitter =>
  owner === CLUSTER_ADMIN ? { kind: 'admin' } : { kind: 'user', uid: owner };
