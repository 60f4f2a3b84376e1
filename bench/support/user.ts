import { startIssuer } from '../../test/support/issuer.ts';
import { ALICE } from '../../test/support/issuer-users.ts';

/** A user with an access token of a real issuer, which runs in this process. */
export interface BenchUser extends AsyncDisposable {
  /** The value of `Authorization`. */
  readonly as: string;
  /** With which one manager gets access tokens for that user: it is spent by the first that uses it. */
  refreshToken(): Promise<string>;
  /** With which a manager lets that user in. */
  readonly settings: Readonly<Record<string, string>>;
}

export async function startUser(): Promise<BenchUser> {
  const issuer = await startIssuer();
  const { accessToken } = await issuer.tokensFor(ALICE);
  return {
    as: `Bearer ${accessToken}`,
    refreshToken: async () => (await issuer.tokensFor(ALICE)).refreshToken,
    settings: { OIDC_ENABLE: 'true', OIDC_ISSUERS: issuer.url, OIDC_AUDIENCE: 'oscar', OIDC_GROUPS: '/oscar' },
    [Symbol.asyncDispose]: () => issuer.stop(),
  };
}
