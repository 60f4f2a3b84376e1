import { errors, jwtVerify } from 'jose';
import type { TokenVerifier } from '../authenticate.ts';
import { IdentityError } from '../errors.ts';
import type { TokenSubject } from '../grants/lifecycle.ts';
import { CLOCK_TOLERANCE, JWT_ALGORITHMS } from '../oidc/verify-token.ts';
import type { UserNames } from '../user-names.ts';
import type { AuthorizationServer, Redeemed } from './authorization-server.ts';
import type { OidcClient } from './choose.ts';

/**
 * Finds the user of the tokens of an exchange: from the access token, verified like that of an incoming request, or else
 * from the ID token. Undefined if neither identifies the user.
 */
export async function identifySubject(
  { access, idToken }: Redeemed,
  client: OidcClient,
  server: AuthorizationServer,
  verifier: TokenVerifier,
  names: UserNames,
): Promise<TokenSubject | undefined> {
  try {
    if (access) {
      const { uid, issuer = server.url } = await verifier.verify(access.token.reveal());
      return { issuer, subject: uid };
    }
  } catch (error) {
    // The token is opaque, for another audience, or of a user who is not admitted here: the ID token may still identify it.
    if (!(error instanceof IdentityError)) throw error;
    if (error.code === 'issuer-unavailable') throw server.unavailable(error.cause);
  }
  return idToken && readIdToken(idToken.reveal(), client, server, names);
}

async function readIdToken(
  token: string,
  { id }: OidcClient,
  server: AuthorizationServer,
  names: UserNames,
): Promise<TokenSubject | undefined> {
  const { keys } = await server.issuer();
  try {
    const { payload } = await jwtVerify(token, keys, {
      algorithms: JWT_ALGORITHMS,
      issuer: server.url,
      audience: id,
      clockTolerance: CLOCK_TOLERANCE,
      requiredClaims: ['sub', 'exp'],
    });
    const subject = names.find(server.url, payload.sub ?? '');
    return subject === undefined ? undefined : { issuer: server.url, subject };
  } catch (error) {
    if (error instanceof IdentityError) throw server.unavailable(error.cause);
    if (error instanceof errors.JOSEError) return undefined;
    throw error;
  }
}
