import type { Service } from '../../model/service/index.ts';
import { findGrant } from '../grants/attach.ts';
import { grantAge, type Vault } from '../grants/grant.ts';

/** What is the matter with the refresh token of a federated service, for whoever looks at the federation. */
export interface GrantCondition {
  /**
   * `CredentialsExpired`: nothing is done for its owner any more. `CredentialsRefused`: nor is it now, though the token may
   * be good. `CredentialsOld`: that may be soon.
   */
  readonly type: 'CredentialsExpired' | 'CredentialsRefused' | 'CredentialsOld';
  readonly reason: string;
  /** ISO 8601. Absent where nobody wrote it down. */
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
    return { type: 'CredentialsExpired', reason: `${grant.reason ?? 'ended'}: bring a new refresh token`, ...since };
  }
  if (grant.refusal) {
    const { reason, since } = grant.refusal;
    return { type: 'CredentialsRefused', reason, since: new Date(since).toISOString() };
  }
  // One that is used for nothing may be as old as it likes.
  const age = grantAge(grant, vault.now());
  if (grant.local || age < warnDays * DAY) return undefined;
  return {
    type: 'CredentialsOld',
    reason: `the refresh token was brought ${Math.floor(age / DAY)} days ago: bring a new one before it expires`,
    since: new Date(grant.createdAt + warnDays * DAY).toISOString(),
  };
}
