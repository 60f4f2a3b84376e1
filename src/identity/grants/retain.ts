import type { Secret } from '../../lib/secret.ts';
import { attachGrant, detachGrants, type Submitter } from './attach.ts';
import { grantAge, readGrant, tokenHash, type Vault } from './grant.ts';
import { listHolders, readHoldings } from './holdings.ts';

/**
 * How long a token that was redeemed for a create is kept if no service uses it. Shorter: a user who sends the same definition
 * again needs a new token, because the issuer has spent this one. Longer: tokens of failed creates are stored for longer.
 */
const RETAINED_MS = 24 * 60 * 60_000;

/** Holds a grant in place of a service. The uid of a service has no slash. */
const RETAINER = 'retained/';
const retainerFor = (token: Secret) => `${RETAINER}${tokenHash(token)}`;

/** Stores a refresh token for a service that does not exist yet, and returns the id of its grant. Throws as `attachGrant`. */
export const retainGrant = (token: Secret, submitter: Submitter, vault: Vault): Promise<string> =>
  attachGrant(token, submitter, retainerFor(token), vault);

/** The services of the grant keep it; without any it is removed. Calling it again is a no-op. */
export const releaseGrant = (token: Secret, vault: Pick<Vault, 'secrets' | 'now'>): Promise<void> =>
  detachGrants(retainerFor(token), vault);

/** Removes the grants that were retained for a create which failed, or whose manager stopped. */
export async function expireRetainedGrants(vault: Pick<Vault, 'secrets' | 'now'>): Promise<void> {
  const holders = await listHolders(RETAINER, vault);
  for (const holder of holders) {
    const { grants } = await readHoldings(holder, vault);
    const records = await Promise.all(grants.map((id) => readGrant(id, vault)));
    const isOver = records.every((record) => !record || grantAge(record.grant, vault.now()) >= RETAINED_MS);
    if (isOver) await detachGrants(holder, vault);
  }
}
