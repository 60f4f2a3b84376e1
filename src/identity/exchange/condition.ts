import type { Service } from '../../model/service/index.ts';
import { findGrant } from '../grants/attach.ts';
import { grantAge, type Vault } from '../grants/grant.ts';

/** A problem with the refresh token of a federated service, shown in the status of the federation. */
export interface GrantCondition {
  /**
   * `CredentialsExpired`: the manager cannot act for the owner any more. `CredentialsRefused`: it cannot at present, though
   * the token may be valid. `CredentialsOld`: the token may expire soon. `TokenNotNarrowed`: a member on a Go manager
   * gets access tokens that are valid at other places too.
   */
  readonly type: 'CredentialsExpired' | 'CredentialsRefused' | 'CredentialsOld' | 'TokenNotNarrowed';
  readonly reason: string;
  /** ISO 8601. Absent if it was not recorded. */
  readonly since?: string;
}

const DAY = 24 * 60 * 60_000;

export async function grantCondition(
  service: Pick<Service, 'uid' | 'owner'>,
  vault: Vault,
  warnDays: number,
): Promise<GrantCondition | undefined> {
  const { grant } = (await findGrant(service, vault)) ?? {};
  if (!grant) return undefined;
  if (grant.state === 'ended') {
    const since = grant.endedAt === undefined ? {} : { since: new Date(grant.endedAt).toISOString() };
    return { type: 'CredentialsExpired', reason: `${grant.reason ?? 'ended'}: send a new refresh token`, ...since };
  }
  if (grant.refusal) {
    const { reason, since } = grant.refusal;
    return { type: 'CredentialsRefused', reason, since: new Date(since).toISOString() };
  }
  // A local grant is never used, so its age does not matter.
  const age = grantAge(grant, vault.now());
  if (grant.local || age < warnDays * DAY) return undefined;
  return {
    type: 'CredentialsOld',
    reason: `the refresh token was sent ${Math.floor(age / DAY)} days ago: send a new one before it expires`,
    since: new Date(grant.createdAt + warnDays * DAY).toISOString(),
  };
}

/** Which of these clusters get access tokens of the owner that are not restricted to the cluster, and why. */
export async function narrowingCondition(
  service: Pick<Service, 'uid' | 'owner'>,
  clusters: ReadonlySet<string>,
  vault: Vault,
): Promise<GrantCondition | undefined> {
  const { grant } = (await findGrant(service, vault)) ?? {};
  const wide = Object.entries(grant?.wide ?? {}).filter(([cluster]) => clusters.has(cluster));
  if (!grant || grant.state === 'ended' || wide.length === 0) return undefined;
  const reason = wide.map(([cluster, why]) => `"${cluster}" gets access tokens that are valid elsewhere too: ${why}`);
  return { type: 'TokenNotNarrowed', reason: reason.join('; ') };
}
