import { hash } from 'node:crypto';
import { Secret } from '../../base/secret.ts';
import type { Credentials } from './cluster-client.ts';
import type { ClusterEntry } from './config-file.ts';
import { ClientError } from './errors.ts';
import type { Logins } from './logins.ts';

/**
 * As whom to ask a cluster: who has logged in is that user; otherwise what the configuration says, as oscar-cli would do
 * it.
 */
export async function credentialsFor(id: string, entry: ClusterEntry, logins: Logins): Promise<Credentials> {
  const login = logins.at(id);
  if (login && !login.login.seed) return bearer(() => logins.accessToken(login.key));
  if (entry.oidc_refresh_token) {
    const key = await seeded(id, entry.oidc_refresh_token, logins);
    return bearer(() => logins.accessToken(key));
  }
  if (entry.auth_user !== undefined) {
    const pair = Buffer.from(`${entry.auth_user}:${entry.auth_password ?? ''}`).toString('base64');
    return { kind: 'basic', authorization: async () => new Secret(`Basic ${pair}`) };
  }
  const how = entry.oidc_issuer ? '' : ' --issuer URL';
  const agent = entry.oidc_account_name
    ? ` (its oidc-agent account "${entry.oidc_account_name}" is not used here)`
    : '';
  throw new ClientError('login-needed', `log in for cluster "${id}"${agent}: \`oscar login --cluster ${id}${how}\``);
}

function bearer(token: () => Promise<Secret>): Credentials {
  return { kind: 'bearer', authorization: async () => new Secret(`Bearer ${(await token()).reveal()}`) };
}

/** A refresh token of oscar-cli's file names its issuer and client (contract §6.7). It becomes a login of its own. */
async function seeded(id: string, token: string, logins: Logins): Promise<string> {
  const key = `configuration of ${id}`;
  const seed = hash('sha256', token);
  if (logins.find(key)?.seed === seed) return key;
  const { iss, azp } = claimsOf(token);
  if (typeof iss !== 'string' || typeof azp !== 'string') {
    throw new ClientError(
      'login-needed',
      `the oidc_refresh_token of cluster "${id}" does not say where it is from: use \`oscar login --cluster ${id} --issuer URL\``,
    );
  }
  const spent = { accessToken: new Secret(''), expiresAt: 0, refreshToken: new Secret(token) };
  await logins.put(key, { issuer: iss, clientId: azp, seed }, spent, []);
  return key;
}

function claimsOf(token: string): { iss?: unknown; azp?: unknown } {
  try {
    return JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as object;
  } catch {
    return {};
  }
}
