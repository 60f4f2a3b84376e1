import { type Issuer, startIssuer } from './issuer.ts';
import { ALICE, BOB, CAROL as OUTSIDER, type TestUser } from './issuer-users.ts';

/** Carol as in the recorded exchanges: a member of the group that the cluster admits. */
export const CAROL: TestUser = { ...OUTSIDER, claims: { name: 'Carol', group_membership: ['/oscar', '/carols'] } };

export interface People {
  readonly issuer: Issuer;
  /** Values for `Authorization`. */
  readonly alice: string;
  readonly bob: string;
  readonly carol: string;
  /** Settings of a manager that admits them. */
  readonly settings: Record<string, string>;
}

/** Three users of an issuer, logged in. */
export async function startPeople(): Promise<People> {
  const issuer = await startIssuer({ users: [ALICE, BOB, CAROL] });
  const bearer = async (user: TestUser) => `Bearer ${(await issuer.tokensFor(user)).accessToken}`;
  const [alice, bob, carol] = await Promise.all([bearer(ALICE), bearer(BOB), bearer(CAROL)]);
  const settings = { OIDC_ENABLE: 'true', OIDC_ISSUERS: issuer.url, OIDC_GROUPS: '/oscar' };
  return { issuer, alice, bob, carol, settings };
}
