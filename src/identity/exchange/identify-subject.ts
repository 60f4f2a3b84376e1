import { errors, jwtVerify } from 'jose';
import type { TokenVerifier } from '../authenticate.ts';
import { IdentityError } from '../errors.ts';
import type { TokenSubject } from '../grants/lifecycle.ts';
import { CLOCK_TOLERANCE, JWT_ALGORITHMS } from '../oidc/verify-token.ts';
import type { AuthorizationServer, Redeemed } from './authorization-server.ts';
import type { OidcClient } from './choose.ts';

/**
 * Whose the tokens of an exchange are: what the access token says, as if its bearer came to us, or else the ID token that
 * came with it. Undefined when neither says so.
 */
export async function identifySubject(
  { access, idToken }: Redeemed,
  client: OidcClient,
  authority: AuthorizationServer,
  verifier: TokenVerifier,
): Promise<TokenSubject | undefined> {
  try {
    if (access) {
      const { uid, issuer = authority.url } = await verifier.verify(access.token.reveal());
      return { issuer, subject: uid };
    }
  } catch (error) {
    // An opaque one, one for another audience, or of somebody who is let in elsewhere: they still have a name.
    if (!(error instanceof IdentityError)) throw error;
    if (error.code === 'issuer-unavailable') throw authority.away(error.cause);
  }
  return idToken && readIdToken(idToken.reveal(), client, authority);
}

async function readIdToken(
  token: string,
  { id }: OidcClient,
  authority: AuthorizationServer,
): Promise<TokenSubject | undefined> {
  const { keys } = await authority.issuer();
  try {
    const { payload } = await jwtVerify(token, keys, {
      algorithms: JWT_ALGORITHMS,
      issuer: authority.url,
      audience: id,
      clockTolerance: CLOCK_TOLERANCE,
      requiredClaims: ['sub', 'exp'],
    });
    return payload.sub === undefined ? undefined : { issuer: authority.url, subject: payload.sub };
  } catch (error) {
    if (error instanceof IdentityError) throw authority.away(error.cause);
    if (error instanceof errors.JOSEError) return undefined;
    throw error;
  }
}
