import { hash } from 'node:crypto';
import { Secret } from '../../lib/secret.ts';
import type { Version } from '../../lib/version.ts';
import { type SecretStore, StoreError } from '../../ports/index.ts';

/**
 * A user's refresh token and its lineage at one issuer (docs/invoking-async.md#the-refresh-token). The vault of grants
 * is its one holder: services keep the id of their grant, and no pod, log, answer, definition or other cluster ever
 * gets the token (F36).
 */
export interface Grant {
  /** Random; never used again, so that whoever is late can harm no other. */
  readonly id: string;
  /** Whose it is. Of an unproven one it is what its owner says. */
  readonly issuer?: string;
  readonly subject?: string;
  /** Who brought it: uid of a user, or the owner of the administrator's services. */
  readonly owner: string;
  /** Brought with Basic credentials, which are nobody at an issuer: it is not shared, and not used outside this manager. */
  readonly local: boolean;
  /** `unproven`: the issuer has not said yet whose it is. `ended`: expired, revoked or another user's; the token is gone. */
  readonly state: 'unproven' | 'proven' | 'ended';
  /** Why it ended. */
  readonly reason?: string;
  readonly endedAt?: number;
  /** Why it could not be exchanged the last time, and since when that is so: it may be good, but nothing comes of it. */
  readonly refusal?: { readonly reason: string; readonly since: number } | undefined;
  /** Whose turn it is to show the token to its issuer. */
  readonly turn?: GrantLock | undefined;
  readonly createdAt: number;
  /** SHA-256 of the tokens seen, the one that was brought first. */
  readonly lineage: readonly string[];
  /** Uids of the services that it is for. Empty while it is being forgotten: nobody joins it any more. */
  readonly services: readonly string[];
}

/** The right to show the token of a grant to its issuer, by compare-and-swap on the grant. See `grant-lock.ts`. */
interface GrantLock {
  /** Random, one for each turn. */
  readonly holder: string;
  readonly since: number;
}

export interface GrantRecord {
  readonly grant: Grant;
  /** Absent once it has ended. */
  readonly token?: Secret;
  readonly version: Version;
}

/** What the verbs of the vault need. */
export interface Vault {
  readonly secrets: SecretStore;
  readonly now: () => number;
  readonly newUid: () => string;
}

const ROOM = 'grant';
const place = (id: string) => `grant/${id}`;

export async function readGrant(id: string, { secrets }: Pick<Vault, 'secrets'>): Promise<GrantRecord | undefined> {
  const record = await secrets.get(ROOM, place(id));
  if (!record) return undefined;
  const { grant, token } = record.values;
  if (!grant) throw new StoreError('damaged', `the grant ${id} is incomplete: forget it by a PUT with a new token`);
  return { grant: JSON.parse(grant.reveal()) as Grant, ...(token && { token }), version: record.version };
}

/** Under the version that was read, always: of two who change a grant, one begins again. */
export async function writeGrant(
  grant: Grant,
  token: Secret | undefined,
  expected: Version | 'absent',
  { secrets }: Pick<Vault, 'secrets'>,
): Promise<Version> {
  const values = { grant: new Secret(JSON.stringify(grant)), ...(token && { token }) };
  return secrets.put(ROOM, place(grant.id), values, expected);
}

export async function dropGrant(id: string, { secrets }: Pick<Vault, 'secrets'>): Promise<void> {
  await secrets.remove(ROOM, place(id));
}

/** Can a service still join it? */
export const isAlive = ({ state, services }: Grant) => state !== 'ended' && services.length > 0;

export const tokenHash = (token: Secret) => hash('sha256', token.reveal());

/** Milliseconds since its token was brought. Whoever shows it decides when to warn. */
export function grantAge({ createdAt }: Pick<Grant, 'createdAt'>, now: number): number {
  return Math.max(0, now - createdAt);
}
