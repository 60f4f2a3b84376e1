import type { Secret } from '../../base/secret.ts';
import { StoreError, type Version } from '../../cluster/index.ts';
import { GrantError } from './errors.ts';
import { isAlive, readGrant, tokenHash, type Vault, writeGrant } from './grant.ts';
import { findMark, isLeaving, releaseMark, takeMark } from './marks.ts';

/**
 * How many tokens of a lineage are remembered. Users know the one they brought, which always is; of those that the issuer
 * gave since, the oldest go first. Fewer: nothing is won. More: an issuer that gives one an hour fills a Secret within a year.
 */
const REMEMBERED = 1000;

/**
 * Stores the token that the issuer gave in exchange for the one in the grant, which ends the turn of whoever asked for it;
 * to be done before what came with it is used.
 * Throws `conflict` when the grant is in another version: read it again, and if the token is still the one that was
 * exchanged, store the new one under that version.
 */
export async function rotateGrant(
  id: string,
  expected: Version,
  token: Secret,
  vault: Pick<Vault, 'secrets' | 'now'>,
): Promise<Version> {
  const record = await readGrant(id, vault);
  if (record?.version !== expected || !isAlive(record.grant)) {
    throw changed(id);
  }
  const { grant } = record;
  if (grant.local) {
    throw new GrantError('grant-refused', 'a refresh token that was brought with Basic credentials is not exchanged');
  }
  const hash = tokenHash(token);
  await markToken(hash, id, vault);
  const lineage = grant.lineage.includes(hash) ? grant.lineage : remember([...grant.lineage, hash]);
  try {
    const version = await writeGrant({ ...grant, lineage, turn: undefined }, token, expected, vault);
    for (const old of grant.lineage.filter((seen) => !lineage.includes(seen))) await releaseMark(old, id, vault);
    return version;
  } catch (error) {
    const current = await readGrant(id, vault);
    if (!current?.grant.lineage.includes(hash)) await releaseMark(hash, id, vault);
    throw error;
  }
}

const remember = (lineage: readonly string[]) =>
  lineage.length <= REMEMBERED ? lineage : [...lineage.slice(0, 1), ...lineage.slice(1 - REMEMBERED)];

/** Before the grant has it: of two grants that are given one token, one is refused. */
async function markToken(hash: string, id: string, vault: Pick<Vault, 'secrets' | 'now'>): Promise<void> {
  const mark = await findMark(hash, vault);
  if (mark?.grant === id) return;
  const other = mark && (await readGrant(mark.grant, vault));
  if (other && isAlive(other.grant)) {
    throw new GrantError('grant-refused', `the grant ${id} was given a token that another grant has already`);
  }
  if (isLeaving(mark, vault.now())) throw changed(id);
  await takeMark(hash, id, mark, vault);
}

const changed = (id: string) => new StoreError('conflict', `the grant ${id} has changed meanwhile: read it again`);
