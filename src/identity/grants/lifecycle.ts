import type { Secret } from '../../lib/secret.ts';
import type { Version } from '../../lib/version.ts';
import { isRace, StoreError } from '../../ports/index.ts';
import { GrantError } from './errors.ts';
import { isAlive, readGrant, tokenHash, type Vault, writeGrant } from './grant.ts';
import { findTokenEntry, isBeingRemoved, putTokenEntry, removeTokenEntry } from './holdings.ts';

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
  lineage.length <= REMEMBERED ? lineage : [...lineage.slice(0, 1), ...lineage.slice(1 - REMEMBERED)];

/** Before the grant has it: of two grants that are given one token, one is refused. */
async function claimToken(hash: string, id: string, vault: Pick<Vault, 'secrets' | 'now'>): Promise<void> {
  const mark = await findTokenEntry(hash, vault);
  if (mark?.grant === id) return;
  const other = mark && (await readGrant(mark.grant, vault));
  if (other && isAlive(other.grant)) {
    throw new GrantError('grant-refused', `the grant ${id} was given a token that another grant has already`);
  }
  if (isBeingRemoved(mark, vault.now())) throw changed(id);
  await putTokenEntry(hash, id, mark, vault);
}

const changed = (id: string) => new StoreError('conflict', `the grant ${id} has changed meanwhile: read it again`);

/** Whose tokens an exchange gave. */
export interface TokenSubject {
  readonly issuer: string;
  readonly subject: string;
}

/**
 * Compares what the first exchange says with who brought the token. A difference ends the grant; says whether the tokens of
 * that exchange may be used.
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
      await endGrant(id, "another user's token", vault);
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
 * The grant is good for nothing any more: expired, revoked, another user's. Its token is dropped, its services see why, and
 * whoever brings the token again begins anew. With `refused` only if that is the token it still has.
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
 * Why the token of a grant cannot be exchanged though it may be good, for whoever looks at its services; undefined when it
 * could be. What stands there already is not written again. A grant that has ended says why itself.
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

/** One use of a grant, for whoever asks later who did what with it. */
interface GrantUse {
  /** Its id. */
  readonly grant: string;
  /** Whose it is. */
  readonly owner: string;
  /** Uid of the service on whose behalf. */
  readonly service: string;
  readonly why: string;
  readonly at: number;
}

/** Fits pino. */
interface AuditLog {
  info(fields: object, message: string): void;
}

export function recordUse({ grant, owner, service, why, at }: GrantUse, log: AuditLog): void {
  log.info({ audit: 'grant', grant, owner, service, why, at: new Date(at).toISOString() }, 'refresh token used');
}
