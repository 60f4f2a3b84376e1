import type { Secret } from '../../lib/secret.ts';
import type { Version } from '../../lib/version.ts';
import { type AuditLog, isRace, StoreError } from '../../ports/index.ts';
import { GrantError } from './errors.ts';
import { isAlive, readGrant, tokenHash, type Vault, writeGrant } from './grant.ts';
import { findTokenEntry, isBeingRemoved, putTokenEntry, removeTokenEntry } from './holdings.ts';

/**
 * How many tokens of a lineage are remembered: always the one that the user sent, and the newest that the issuer returned.
 * Smaller: a user who sends an older one again is not recognised. Larger: an issuer that rotates hourly fills a Kubernetes
 * Secret within a year.
 */
const LINEAGE_LENGTH = 1000;

/**
 * Stores the token that the issuer returned for the one in the grant, and releases the lock. Call it before using the
 * access token that came with it.
 * Throws `conflict` if the grant has another version: read it again, and if its token is still the one that was exchanged,
 * retry with that version.
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
    throw new GrantError('grant-refused', 'a refresh token that was sent with Basic credentials is not exchanged');
  }
  const hash = tokenHash(token);
  await claimToken(hash, id, vault);
  const lineage = grant.lineage.includes(hash) ? grant.lineage : trimLineage([...grant.lineage, hash]);
  try {
    const version = await writeGrant({ ...grant, lineage, turn: undefined }, token, expected, vault);
    for (const old of grant.lineage.filter((seen) => !lineage.includes(seen))) await removeTokenEntry(old, id, vault);
    return version;
  } catch (error) {
    const current = await readGrant(id, vault);
    if (!current?.grant.lineage.includes(hash)) await removeTokenEntry(hash, id, vault);
    throw error;
  }
}

const trimLineage = (lineage: readonly string[]) =>
  lineage.length <= LINEAGE_LENGTH ? lineage : [...lineage.slice(0, 1), ...lineage.slice(1 - LINEAGE_LENGTH)];

/** Called before the grant stores the token: if two grants get the same token, one is rejected. */
async function claimToken(hash: string, id: string, vault: Pick<Vault, 'secrets' | 'now'>): Promise<void> {
  const entry = await findTokenEntry(hash, vault);
  if (entry?.grant === id) return;
  const other = entry && (await readGrant(entry.grant, vault));
  if (other && isAlive(other.grant)) {
    throw new GrantError('grant-refused', `the issuer returned a token to grant ${id} that another grant already has`);
  }
  if (isBeingRemoved(entry, vault.now())) throw changed(id);
  await putTokenEntry(hash, id, entry, vault);
}

const changed = (id: string) => new StoreError('conflict', `the grant ${id} was changed concurrently: read it again`);

/** Stored as the reason of a grant that one user sent and another one owns. */
export const OTHER_USER = "another user's token";

/** The user whose tokens an exchange returned. */
export interface TokenSubject {
  readonly issuer: string;
  /** The uid here, not the `sub` alone: the same `sub` of another issuer is another user. */
  readonly subject: string;
}

/**
 * Compares the user of the first exchange with the user who sent the token, and ends the grant if they differ. Returns
 * whether the tokens of the exchange may be used.
 */
export async function proveGrant(
  id: string,
  { issuer, subject }: TokenSubject,
  vault: Pick<Vault, 'secrets' | 'now'>,
): Promise<boolean> {
  for (;;) {
    const record = await readGrant(id, vault);
    if (!record || !isAlive(record.grant)) return false;
    const { grant, token, version } = record;
    const isSame = subject === (grant.subject ?? grant.owner) && issuer === (grant.issuer ?? issuer);
    if (grant.local || !isSame) {
      await endGrant(id, OTHER_USER, vault);
      return false;
    }
    if (grant.state === 'proven') return true;
    try {
      await writeGrant({ ...grant, issuer, subject, state: 'proven' }, token, version, vault);
      return true;
    } catch (error) {
      if (!isRace(error)) throw error;
    }
  }
}

/**
 * Ends a grant that is expired, revoked or another user's. Its token is deleted, its services show the reason, and a user
 * who sends the token again gets a new grant. With `refused`, ends it only if that is still its token.
 */
export async function endGrant(
  id: string,
  reason: string,
  vault: Pick<Vault, 'secrets' | 'now'>,
  refused?: Secret,
): Promise<void> {
  for (;;) {
    const record = await readGrant(id, vault);
    if (!record || record.grant.state === 'ended') return;
    if (refused && !record.token?.equals(refused)) return;
    const ended = { ...record.grant, state: 'ended', reason, endedAt: vault.now(), turn: undefined } as const;
    try {
      await writeGrant(ended, undefined, record.version, vault);
      return;
    } catch (error) {
      if (!isRace(error)) throw error;
    }
  }
}

/**
 * Stores why the token of a grant cannot be exchanged though it may be valid, for the status of its services; undefined
 * after a successful exchange. An unchanged reason is not written again. A grant that has ended keeps its own reason.
 */
export async function recordRefusal(
  id: string,
  reason: string | undefined,
  vault: Pick<Vault, 'secrets' | 'now'>,
): Promise<void> {
  for (;;) {
    const record = await readGrant(id, vault);
    if (!record || !isAlive(record.grant) || record.grant.refusal?.reason === reason) return;
    const refusal = reason === undefined ? undefined : { reason, since: vault.now() };
    try {
      await writeGrant({ ...record.grant, refusal }, record.token, record.version, vault);
      return;
    } catch (error) {
      if (!isRace(error)) throw error;
    }
  }
}

/**
 * Stores why the tokens for a cluster are not restricted to it, for the status of the grant's services; undefined if they
 * are. An unchanged reason is not written again.
 */
export async function recordWideToken(
  id: string,
  audience: string,
  reason: string | undefined,
  vault: Pick<Vault, 'secrets'>,
): Promise<void> {
  for (;;) {
    const record = await readGrant(id, vault);
    if (!record || !isAlive(record.grant) || record.grant.wide?.[audience] === reason) return;
    const { [audience]: _, ...others } = record.grant.wide ?? {};
    const wide = reason === undefined ? others : { ...others, [audience]: reason };
    try {
      await writeGrant({ ...record.grant, wide }, record.token, record.version, vault);
      return;
    } catch (error) {
      if (!isRace(error)) throw error;
    }
  }
}

/** One use of a grant, for the audit log. */
interface GrantUse {
  /** Id of the grant. */
  readonly grant: string;
  readonly owner: string;
  /** Uid of the service for which the token was used. */
  readonly service: string;
  readonly why: string;
  readonly at: number;
}

/** Compatible with pino. */
interface UseLogger {
  info(fields: object, message: string): void;
}

export function recordUse({ grant, owner, service, why, at }: GrantUse, log: UseLogger, audit?: AuditLog): void {
  const details = { owner, service };
  audit?.record({
    action: why === 'revoke' ? 'grant.revoke' : 'grant.use',
    actor: 'manager',
    object: `grant/${grant}`,
    outcome: 'success',
    reason: why,
    details,
  });
  log.info({ audit: 'grant', grant, owner, service, why, at: new Date(at).toISOString() }, 'refresh token used');
}
