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

/** Who brings a token: an administrator or a user, as authentication knows them. */
export type Submitter = { readonly kind: 'admin' } | Person;

interface Person {
  readonly kind: 'user';
  readonly uid: string;
  readonly issuer?: string | undefined;
}

/** More than services that one user makes at one moment; each attempt lets one of them through. */
const ATTEMPTS = 100;

/** A removal, or somebody else's turn, is two requests to the store. */
const FIRST_WAIT_MS = 5;

/** Shorter: many who bring one token keep each other from it. Longer: the last of a few waits for nothing. */
const LONGEST_WAIT_MS = 50;

/** A random time, so that those who met do not meet again. */
const waitBefore = (attempt: number) => Math.random() * Math.min(FIRST_WAIT_MS * (attempt - 1), LONGEST_WAIT_MS);

/**
 * Puts a refresh token into the vault for a service, and gives the id of its grant. A token that was seen before joins its
 * grant, if that is the grant of whoever brings it; otherwise it is refused and not kept. Again: nothing changes.
 *
 * What a service has beyond the grant in its slot is left by `detachGrants`.
 */
export async function attachGrant(token: Secret, bringer: Submitter, service: string, vault: Vault): Promise<string> {
  const hash = tokenHash(token);
  const tried = new Set<string>();
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    if (attempt > 2) await pause(waitBefore(attempt));
    const mark = await findTokenEntry(hash, vault);
    const found = mark && (await readGrant(mark.grant, vault));
    try {
      if (found && isAlive(found.grant)) {
        tried.add(found.grant.id);
        return await joinGrant(found, bringer, service, vault);
      }
      if (bringer.kind === 'admin') return await attachLocalGrant(token, service, vault);
      // And once more around: it is found, unless somebody was faster or has forgotten it already.
      if (!isBeingRemoved(mark, vault.now()))
        await createSharedGrant(token, { owner: bringer.uid, ...toIssuerField(bringer) }, mark, service, vault);
    } catch (error) {
      if (isRace(error)) continue;
      await dropUnusedHoldings(tried, service, vault);
      throw error;
    }
  }
  await dropUnusedHoldings(tried, service, vault);
  throw new StoreError('unavailable', 'the refresh token is being brought by many at once: try again');
}

/** It may have noted to be in a grant that ended before it was. */
async function dropUnusedHoldings(tried: ReadonlySet<string>, service: string, vault: Vault): Promise<void> {
  for (const id of tried) {
    const record = await readGrant(id, vault);
    if (!record?.grant.services.includes(service)) await dropHolding(service, id, vault);
  }
}

/** Written also when nothing changes: who wants to leave the grant on behalf of this service looks again. */
async function joinGrant({ grant, token, version }: GrantRecord, bringer: Submitter, service: string, vault: Vault) {
  if (!grant.services.includes(service) && !isSubject(grant, bringer)) {
    throw new GrantError(
      'grant-refused',
      'environment.secrets.refresh_token: this token was brought by somebody else, and was not kept: get one of your own from your identity provider',
    );
  }
  await addHolding(service, grant.id, vault);
  await writeGrant({ ...grant, services: [...new Set([...grant.services, service])] }, token, version, vault);
  return grant.id;
}

function isSubject(grant: Grant, bringer: Submitter): boolean {
  if (bringer.kind === 'admin' || grant.local) return false;
  if (grant.issuer !== undefined && bringer.issuer !== undefined && grant.issuer !== bringer.issuer) return false;
  return (grant.subject ?? grant.owner) === bringer.uid;
}

const toIssuerField = ({ issuer }: Person) => (issuer === undefined ? {} : { issuer });

async function createSharedGrant(
  token: Secret,
  whose: Pick<Grant, 'owner' | 'issuer'>,
  instead: TokenEntry | undefined,
  service: string,
  vault: Vault,
): Promise<void> {
  const id = await createGrant(token, { ...whose, local: false }, service, vault);
  try {
    await putTokenEntry(tokenHash(token), id, instead, vault);
  } catch (error) {
    if (isRace(error)) {
      await dropGrant(id, vault);
      await dropHolding(service, id, vault);
    }
    throw error;
  }
}

/** Without a mark: nobody finds it, nobody joins it, and nobody is kept from bringing their own token. */
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
 * Takes a service out of every grant but the one that its slot names; a service that is gone has no slot. A grant that is
 * left by its last service is forgotten, with its token and all marks of its lineage. Again: nothing happens, and what
 * somebody who died has left is finished.
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

/** The slot is read after the grant: whoever has filled it since has written the grant as well, and is noticed. */
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

/** The grant goes last: who begins again after a crash still finds its lineage. */
async function removeGrant({ id, lineage }: Grant, vault: Pick<Vault, 'secrets' | 'now'>): Promise<void> {
  for (const hash of lineage) await removeTokenEntry(hash, id, vault);
  await dropGrant(id, vault);
}

/** The grant of a service. Undefined when it has none. */
export async function findGrant(
  service: Pick<Service, 'uid' | 'owner'>,
  vault: Vault,
): Promise<GrantRecord | undefined> {
  const id = await migrateToken(service, vault);
  return id === undefined ? undefined : readGrant(id, vault);
}

/**
 * The id of the grant. Services that were made before there was a vault have the token itself, which is taken for its
 * owner's.
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

async function attachUnlessRefused(token: Secret, bringer: Submitter, service: string, vault: Vault) {
  try {
    return await attachGrant(token, bringer, service, vault);
  } catch (error) {
    if (error instanceof GrantError) return undefined;
    throw error;
  }
}

const toSubmitter = (owner: string): Submitter =>
  owner === CLUSTER_ADMIN ? { kind: 'admin' } : { kind: 'user', uid: owner };
