import type { Secret } from '../../base/secret.ts';
import { StoreError, type Version } from '../../cluster/index.ts';
import { GrantError } from './errors.ts';
import { isAlive, readGrant, tokenHash, type Vault, writeGrant } from './grant.ts';
import { findMark, type Mark, releaseMark, takeMark } from './marks.ts';
import { isRace } from './race.ts';

/**
 * How many tokens of a lineage are remembered. Users know the one they brought, which always is; of those that the issuer
 * gave since, the oldest go first. Fewer: nothing is won. More: an issuer that gives one an hour fills a Secret within a year.
 */
const REMEMBERED = 1000;

/**
 * Stores the token that the issuer gave in exchange for the one in the grant; to be done before what came with it is used.
 * Throws `conflict` when the grant is in another version: read it again, and if the token is still the one that was
 * exchanged, store the new one under that version.
 */
export async function rotateGrant(id: string, expected: Version, token: Secret, vault: Vault): Promise<Version> {
  const record = await readGrant(id, vault);
  if (record?.version !== expected || !isAlive(record.grant)) {
    throw new StoreError('conflict', `the grant ${id} has changed meanwhile: read it again`);
  }
  const { grant } = record;
  if (grant.local) {
    throw new GrantError('grant-refused', 'a refresh token that was brought with Basic credentials is not exchanged');
  }
  const hash = tokenHash(token);
  const mark = await findMark(hash, vault);
  await refuseTaken(mark, id, vault);
  const [brought = '', ...others] = [...grant.lineage.filter((seen) => seen !== hash), hash];
  const lineage = hash === grant.lineage[0] ? grant.lineage : [brought, ...others.slice(1 - REMEMBERED)];
  const version = await writeGrant({ ...grant, lineage }, token, expected, vault);
  if (mark?.grant !== id) await markNew(hash, id, mark, vault);
  for (const old of grant.lineage.filter((seen) => !lineage.includes(seen))) await releaseMark(old, id, vault);
  return version;
}

async function refuseTaken(mark: Mark | undefined, id: string, vault: Vault): Promise<void> {
  if (!mark || mark.grant === id) return;
  const other = await readGrant(mark.grant, vault);
  if (other && isAlive(other.grant)) {
    throw new GrantError('grant-refused', `the grant ${id} was given a token that another grant has already`);
  }
}

/** After the grant: a token that is stored and not found is better than one that is found and lost. */
async function markNew(hash: string, id: string, instead: Mark | undefined, vault: Vault): Promise<void> {
  try {
    await takeMark(hash, id, instead, vault);
  } catch (error) {
    if (!isRace(error)) throw error;
  }
  // Forgotten in between, marks first: then this one came too late for that.
  if (!(await readGrant(id, vault))) await releaseMark(hash, id, vault);
}
