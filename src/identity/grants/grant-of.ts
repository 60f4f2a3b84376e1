import { Secret } from '../../base/secret.ts';
import { isRace } from '../../cluster/index.ts';
import { CLUSTER_ADMIN, GRANT_SLOT, REFRESH_TOKEN_SLOT, type Service } from '../../service/index.ts';
import { attachGrant, type Bringer } from './attach.ts';
import { GrantError } from './errors.ts';
import { type GrantRecord, readGrant, type Vault } from './grant.ts';

/** The grant of a service. Undefined when it has none. */
export async function grantOf(service: Pick<Service, 'uid' | 'owner'>, vault: Vault): Promise<GrantRecord | undefined> {
  const id = await moveToken(service, vault);
  return id === undefined ? undefined : readGrant(id, vault);
}

/**
 * The id of the grant. Services that were made before there was a vault have the token itself, which is taken for its
 * owner's.
 */
async function moveToken({ uid, owner }: Pick<Service, 'uid' | 'owner'>, vault: Vault): Promise<string | undefined> {
  for (;;) {
    const record = await vault.secrets.get('credentials', uid);
    const { [REFRESH_TOKEN_SLOT]: token, ...others } = record?.values ?? {};
    if (!record || !token) return others[GRANT_SLOT]?.reveal();
    const id = await attachUnlessRefused(token, bringerOf(owner), uid, vault);
    try {
      const values = { ...others, ...(id !== undefined && { [GRANT_SLOT]: new Secret(id) }) };
      await vault.secrets.put('credentials', uid, values, record.version);
      return id ?? others[GRANT_SLOT]?.reveal();
    } catch (error) {
      if (!isRace(error)) throw error;
    }
  }
}

async function attachUnlessRefused(token: Secret, bringer: Bringer, service: string, vault: Vault) {
  try {
    return await attachGrant(token, bringer, service, vault);
  } catch (error) {
    if (error instanceof GrantError) return undefined;
    throw error;
  }
}

const bringerOf = (owner: string): Bringer =>
  owner === CLUSTER_ADMIN ? { kind: 'admin' } : { kind: 'user', uid: owner };
