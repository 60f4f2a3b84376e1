import { IdentityError } from '../errors.ts';
import type { Claims } from '../groups.ts';
import type { Fetch } from './bounded-fetch.ts';

/**
 * What the issuer says about the holder of a token (OpenID Connect Core §5.3). An answer about another subject than the
 * token's must not be used (§5.3.2).
 *
 * @throws {IdentityError} `bad-token` when the issuer refuses the token, any other error when it does not answer
 */
export async function askUserinfo(endpoint: string, token: string, subject: string, fetch: Fetch): Promise<Claims> {
  const response = await fetch(endpoint, { headers: { authorization: `Bearer ${token}`, accept: 'application/json' } });
  if (response.status === 401 || response.status === 403) {
    throw new IdentityError(
      'bad-token',
      'its issuer refuses to say who this access token belongs to: get a new one, with the scopes openid and profile',
    );
  }
  if (response.status !== 200) throw new Error(`its userinfo was answered with ${response.status}`);

  const claims: unknown = await response.json();
  if (typeof claims !== 'object' || claims === null || !('sub' in claims)) throw new Error('its userinfo has no sub');
  if (claims.sub !== subject) {
    throw new IdentityError(
      'bad-token',
      'its issuer says that this access token belongs to somebody else: get a new one',
    );
  }
  return { ...claims };
}
