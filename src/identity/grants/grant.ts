import { hash } from 'node:crypto';
import { Secret } from '../../lib/secret.ts';
import type { Version } from '../../lib/version.ts';
import { type SecretStore, StoreError } from '../../ports/index.ts';

/**
 * A user's refresh token and its lineage at one issuer (docs/invoking-async.md#the-refresh-token). Only the vault of grants
 * stores the token: services store the id of their grant, and no pod, log, answer, definition or other cluster ever gets
 * the token (F36).
 */
export interface Grant {
  /** Random and never reused, so that a late write cannot affect another grant. */
  readonly id: string;
  /** The issuer of the token, and the uid of its user here. For an unproven grant, what its owner claims. */
  readonly issuer?: string;
  readonly subject?: string;
  /** Who sent the token: the uid of a user, or the owner of the administrator's services. */
  readonly owner: string;
  /** Sent with Basic credentials, which no issuer knows: the grant is not shared, and not used outside this manager. */
  readonly local: boolean;
  /** `unproven`: the issuer has not confirmed the user yet. `ended`: expired, revoked or another user's; the token is deleted. */
  readonly state: 'unproven' | 'proven' | 'ended';
  /** Why it ended. */
  readonly reason?: string;
  readonly endedAt?: number;
  /** Why the last exchange was refused, and since when exchanges are refused. The token may still be valid. */
  readonly refusal?: { readonly reason: string; readonly since: number } | undefined;
  /** Clusters that get access tokens which are not restricted to them, each with the reason. */
  readonly wide?: Readonly<Record<string, string>>;
  /** The lock for sending the token to its issuer. Stored under this name. */
  readonly turn?: GrantLock | undefined;
  readonly createdAt: number;
  /** SHA-256 of all tokens of the grant; the first is the one that the user sent. */
  readonly lineage: readonly string[];
  /** Uids of the services that use it. Empty while the grant is being removed: no service can join it any more. */
  readonly services: readonly string[];
}

/** The right to send the token of a grant to its issuer, acquired by compare-and-swap on the grant. See `grant-lock.ts`. */
interface GrantLock {
  /** Random, a new one for each acquisition. */
  readonly holder: string;
  readonly since: number;
}

export interface GrantRecord {
  readonly grant: Grant;
  /** Absent once the grant has ended. */
  readonly token?: Secret;
  readonly version: Version;
}

/** What the functions of this folder need. */
export interface Vault {
  readonly secrets: SecretStore;
  readonly now: () => number;
  readonly newUid: () => string;
}

const KIND = 'grant';
const keyFor = (id: string) => `grant/${id}`;

export async function readGrant(id: string, { secrets }: Pick<Vault, 'secrets'>): Promise<GrantRecord | undefined> {
  const record = await secrets.get(KIND, keyFor(id));
  if (!record) return undefined;
  const { grant, token } = record.values;
  if (!grant)
    throw new StoreError('damaged', `the grant ${id} is incomplete: replace it by a PUT with a new refresh token`);
  return { grant: JSON.parse(grant.reveal()) as Grant, ...(token && { token }), version: record.version };
}

/** Always a compare-and-swap: of two concurrent writers, one gets a conflict and must read again. */
export async function writeGrant(
  grant: Grant,
  token: Secret | undefined,
  expected: Version | 'absent',
  { secrets }: Pick<Vault, 'secrets'>,
): Promise<Version> {
  const values = { grant: new Secret(JSON.stringify(grant)), ...(token && { token }) };
  return secrets.put(KIND, keyFor(grant.id), values, expected);
}

export async function dropGrant(id: string, { secrets }: Pick<Vault, 'secrets'>): Promise<void> {
  await secrets.remove(KIND, keyFor(id));
}

/** Whether a service can still join the grant. */
export const isAlive = ({ state, services }: Grant) => state !== 'ended' && services.length > 0;

export const tokenHash = (token: Secret) => hash('sha256', token.reveal());

/** Milliseconds since the user sent the token. */
export function grantAge({ createdAt }: Pick<Grant, 'createdAt'>, now: number): number {
  return Math.max(0, now - createdAt);
}
