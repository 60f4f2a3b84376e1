import type { Secret } from '../../../lib/secret.ts';
import type { ClusterClient } from '../../client/cluster-client.ts';
import { ClientError } from '../../client/errors.ts';
import { IssuerClient, OWN_GRANT_TYPE } from '../../client/issuer.ts';
import type { Session } from '../../client/session.ts';
import { invite } from '../invite.ts';

/** A refresh token that is for one service alone. */
export interface OwnGrant {
  readonly refreshToken: Secret;
  /** If it is not needed after all. */
  giveBack(): Promise<void>;
}

/**
 * A grant of its own for a federated service, never that of the login: the manager and this program would use up each
 * other's refresh token where they rotate, and the issuer would revoke both.
 */
export async function ownGrant(service: string, cluster: ClusterClient, session: Session): Promise<OwnGrant> {
  const { logins, terminal } = session;
  const found = logins.at(cluster.id);
  if (!found) {
    throw new ClientError(
      'login-needed',
      `"${service}" is federated and acts for its owner, which needs a grant of a user: log in with \`oscar login\`, or write environment.secrets.refresh_token into the file`,
    );
  }
  const { issuer, clientId } = found.login;
  const client = await IssuerClient.discover(issuer, clientId);
  const silently = client.offers(OWN_GRANT_TYPE);
  if (!silently) terminal.ask(`"${service}" is federated and gets a grant of its own at ${issuer}:`);
  const tokens = silently
    ? await client.ownGrant(await logins.accessToken(found.key))
    : await client.withDevice((to) => invite(to, terminal));
  const { refreshToken } = tokens;
  if (!refreshToken) throw new ClientError('failed', `${issuer} gave no refresh token: does it allow offline_access?`);
  terminal.note(`"${service}" has a grant of its own at ${issuer}`);
  return { refreshToken, giveBack: () => client.revoke(refreshToken) };
}
