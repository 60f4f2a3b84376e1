import type { Secret } from '../../../lib/secret.ts';
import type { ClusterClient } from '../../client/cluster-client.ts';
import { ClientError } from '../../client/errors.ts';
import { IssuerClient, OWN_GRANT_TYPE, showDeviceCode } from '../../client/issuer.ts';
import type { Session } from '../../client/session.ts';

/** A refresh token that only one service uses. */
export interface ServiceGrant {
  readonly refreshToken: Secret;
  /** For a grant that turns out not to be needed. */
  revoke(): Promise<void>;
}

/**
 * Creates a grant for a federated service. The grant of the login is never used for that: where refresh tokens rotate, the
 * manager and this program would invalidate each other's token, and the issuer would revoke both.
 */
export async function createServiceGrant(
  service: string,
  cluster: ClusterClient,
  session: Session,
): Promise<ServiceGrant> {
  const { logins, terminal } = session;
  const found = logins.at(cluster.id);
  if (!found) {
    throw new ClientError(
      'login-needed',
      `${service}: a federated service needs a refresh token of its owner. Log in with \`oscar login\`, or set environment.secrets.refresh_token in the file`,
    );
  }
  const { issuer, clientId } = found.login;
  const client = await IssuerClient.discover(issuer, clientId);
  const silently = client.offers(OWN_GRANT_TYPE);
  if (!silently) terminal.ask(`${service}: a federated service needs its own refresh token at ${issuer}.`);
  const tokens = silently
    ? await client.ownGrant(await logins.accessToken(found.key))
    : await client.withDevice((to) => showDeviceCode(to, terminal));
  const { refreshToken } = tokens;
  if (!refreshToken)
    throw new ClientError('failed', `${issuer} returned no refresh token: does it allow the scope offline_access?`);
  terminal.note(`${service}: created its own refresh token at ${issuer}`);
  return { refreshToken, revoke: () => client.revoke(refreshToken) };
}
