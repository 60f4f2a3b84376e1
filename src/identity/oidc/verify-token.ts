import { errors, type JWTPayload, type JWTVerifyOptions, jwtVerify } from 'jose';
import { IdentityError } from '../errors.ts';
import type { Issuer } from './issuer.ts';

/**
 * Signatures that only the holder of a private key can make. Not `none`, and no `HS*`: there the key that verifies also
 * signs, and a verifier that takes both can be given the issuer's public key as the secret (RFC 8725 §2.1, §3.1).
 */
// biome-ignore format: families
export const JWT_ALGORITHMS = [
  'RS256', 'RS384', 'RS512',
  'PS256', 'PS384', 'PS512',
  'ES256', 'ES384', 'ES512',
  'EdDSA', 'Ed25519',
];

/**
 * Seconds by which the issuer's clock and ours may differ. Shorter: a token that was made this instant is "not valid
 * yet" for a manager whose clock lags. Longer: a token is good for that much longer than it says.
 */
export const CLOCK_TOLERANCE = 10;

/** Header `typ` of an access token: RFC 9068 §2.1, or nothing in particular as before it. */
const ACCESS_TOKEN_TYPES = ['', 'jwt', 'at+jwt', 'application/at+jwt'];

/** Claim `typ` by which Keycloak marks what is signed with the same keys and is no access token. */
const OTHER_KINDS: unknown[] = ['ID', 'Refresh', 'Offline', 'Logout'];

/** Claims of a token whose signature, issuer, times and audience are right. */
export type VerifiedClaims = JWTPayload & { readonly exp: number };

export interface VerifyOptions {
  readonly issuer: string;
  readonly audience?: string | undefined;
  readonly now: () => number;
}

/** @throws {IdentityError} `bad-token` or `issuer-unavailable` */
export async function verifyToken(token: string, issuer: Issuer, options: VerifyOptions): Promise<VerifiedClaims> {
  const checks: JWTVerifyOptions = {
    algorithms: JWT_ALGORITHMS,
    issuer: options.issuer,
    requiredClaims: ['exp'],
    clockTolerance: CLOCK_TOLERANCE,
    currentDate: new Date(options.now()),
    ...(options.audience ? { audience: options.audience } : {}),
  };
  try {
    const { payload, protectedHeader } = await jwtVerify(token, issuer.keys, checks).catch((error: unknown) => {
      if (error instanceof errors.JWKSMultipleMatchingKeys) return verifyWithAny(error, token, checks);
      throw error;
    });
    // Whatever else the issuer signs must not pass for an access token (RFC 8725 §3.12).
    if (
      !ACCESS_TOKEN_TYPES.includes((protectedHeader.typ ?? '').toLowerCase()) ||
      OTHER_KINDS.includes(payload['typ'])
    ) {
      throw new IdentityError('bad-token', 'this is a token of another kind: send the access token');
    }
    return { ...payload, exp: Number(payload.exp) };
  } catch (error) {
    if (!(error instanceof errors.JOSEError)) throw error;
    throw new IdentityError('bad-token', sentence(error, options), { cause: error });
  }
}

/** A token need not say which key signed it (RFC 7515 §4.1.4): then each of the issuer's keys is tried. */
async function verifyWithAny(keys: errors.JWKSMultipleMatchingKeys, token: string, checks: JWTVerifyOptions) {
  for await (const key of keys) {
    try {
      return await jwtVerify(token, key, checks);
    } catch (error) {
      if (!(error instanceof errors.JWSSignatureVerificationFailed)) throw error;
    }
  }
  throw new errors.JWSSignatureVerificationFailed();
}

function sentence(error: errors.JOSEError, { audience }: VerifyOptions): string {
  if (error instanceof errors.JWTExpired) return 'the access token has expired: get a new one';
  if (error instanceof errors.JWTClaimValidationFailed) {
    switch (error.claim) {
      case 'aud':
        return `the access token was made for another audience: ask its issuer for one for "${audience}"`;
      case 'nbf':
        return 'the access token is not valid yet: check the clock of the machine, or wait';
      case 'exp':
        return 'the access token does not say when it expires: ask the issuer for one that does';
    }
  }
  if (error instanceof errors.JOSEAlgNotAllowed || error instanceof errors.JOSENotSupported) {
    return `the access token is not signed in a way that is accepted here: use one of ${JWT_ALGORITHMS.join(', ')}`;
  }
  return 'the access token is not one that its issuer signed: get a new one';
}
