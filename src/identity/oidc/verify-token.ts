import { errors, type JWTHeaderParameters, type JWTPayload, type JWTVerifyOptions, jwtVerify } from 'jose';
import { IdentityError } from '../errors.ts';
import type { Issuer } from './issuer.ts';

/**
 * Asymmetric signatures only. `none` is excluded, and so is `HS*`: its verification key also signs, and a verifier that
 * accepts both kinds can be attacked with the issuer's public key as the shared secret (RFC 8725 §2.1, §3.1).
 */
// biome-ignore format: families
export const JWT_ALGORITHMS = [
  'RS256', 'RS384', 'RS512',
  'PS256', 'PS384', 'PS512',
  'ES256', 'ES384', 'ES512',
  'EdDSA', 'Ed25519',
];

/**
 * Seconds by which the issuer's clock and ours may differ. Shorter: a manager whose clock is behind rejects new tokens as
 * "not valid yet". Longer: tokens are accepted for longer after they have expired.
 */
export const CLOCK_TOLERANCE = 10;

/** Header `typ` of an access token: as in RFC 9068 §2.1, or as issuers used it before that RFC. */
const ACCESS_TOKEN_TYPES = ['', 'jwt', 'at+jwt', 'application/at+jwt'];

/** Claim `typ` of tokens that Keycloak signs with the same keys and that are not access tokens. */
const OTHER_TOKEN_TYPES: unknown[] = ['ID', 'Refresh', 'Offline', 'Logout'];

/** Claims that only ID tokens have (OpenID Connect Core §3.1.3.6, §3.3.2.11). */
const ID_TOKEN_CLAIMS = ['at_hash', 'c_hash', 's_hash'];

/**
 * Claims that say what an access token permits, or to which client it was issued: `scope` and `client_id` of RFC 9068 §2.2,
 * `scp`, `cid` and `appid` of issuers that are older than that RFC. ID tokens have none of them.
 */
const ACCESS_TOKEN_CLAIMS = ['scope', 'scp', 'client_id', 'cid', 'appid'];

/**
 * Whether a token of the issuer is an access token, and not an ID token or another one that it signs with the same keys
 * (RFC 8725 §3.12). `nonce` decides nothing, because earlier versions of Keycloak have it in access tokens too.
 */
function isAccessToken({ typ = '' }: JWTHeaderParameters, claims: JWTPayload): boolean {
  const type = typ.toLowerCase();
  if (!ACCESS_TOKEN_TYPES.includes(type) || OTHER_TOKEN_TYPES.includes(claims['typ'])) return false;
  const isDeclared = type.endsWith('at+jwt') || claims['typ'] === 'Bearer' || claims['token_use'] === 'access';
  if (isDeclared) return true;
  if (claims['token_use'] !== undefined || ID_TOKEN_CLAIMS.some((claim) => claim in claims)) return false;
  // Every ID token has an audience (OpenID Connect Core §2).
  return claims.aud === undefined || ACCESS_TOKEN_CLAIMS.some((claim) => claim in claims);
}

/**
 * Whether a token is an ID token, or has the form of one as the access tokens of Dex have, for one of the audiences. `azp` is not
 * enough: an ID token is meant for its `aud` alone (OpenID Connect Core §3.1.3.7).
 */
function isIdTokenFor({ typ = '' }: JWTHeaderParameters, claims: JWTPayload, audiences: readonly string[]): boolean {
  const isOther = claims['typ'] !== undefined || claims['token_use'] !== undefined;
  return ['', 'jwt'].includes(typ.toLowerCase()) && !isOther && isFor({ aud: claims.aud ?? [] }, audiences);
}

/** Whether a token is for one of the audiences, or was issued to one of them: `azp`, which RFC 9068 calls `client_id`. */
function isFor({ aud = [], azp, client_id }: JWTPayload, audiences: readonly string[]): boolean {
  const named: unknown[] = [...(typeof aud === 'string' ? [aud] : aud), azp, client_id];
  return audiences.some((audience) => named.includes(audience));
}

/** Claims of a token whose signature, issuer, times and audience were verified. */
export type VerifiedClaims = JWTPayload & { readonly exp: number };

export interface VerifyOptions {
  readonly issuer: string;
  /** Empty: every audience is accepted. */
  readonly audiences: readonly string[];
  /** Accept ID tokens for one of the audiences too (decision 0064). */
  readonly idTokens?: boolean;
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
  };
  try {
    const { payload, protectedHeader } = await jwtVerify(token, issuer.keys, checks).catch((error: unknown) => {
      if (error instanceof errors.JWKSMultipleMatchingKeys) return verifyWithAny(error, token, checks);
      throw error;
    });
    const isIdToken = options.idTokens === true && isIdTokenFor(protectedHeader, payload, options.audiences);
    if (!isIdToken && !isAccessToken(protectedHeader, payload)) {
      throw new IdentityError(
        'bad-token',
        'this is not an access token but a token of another kind: send the access token',
      );
    }
    if (options.audiences.length > 0 && !isFor(payload, options.audiences)) {
      throw new IdentityError(
        'bad-token',
        `the access token is for another audience: request one for "${options.audiences.join('" or "')}"`,
      );
    }
    return { ...payload, exp: Number(payload.exp) };
  } catch (error) {
    if (!(error instanceof errors.JOSEError)) throw error;
    throw new IdentityError('bad-token', describeError(error), { cause: error });
  }
}

/** A token need not name its key (RFC 7515 §4.1.4): then each of the issuer's keys is tried. */
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

function describeError(error: errors.JOSEError): string {
  if (error instanceof errors.JWTExpired) return 'the access token has expired: get a new one';
  if (error instanceof errors.JWTClaimValidationFailed) {
    switch (error.claim) {
      case 'nbf':
        return 'the access token is not valid yet: check the clocks, or try again later';
      case 'exp':
        return 'the access token has no valid "exp": get one that expires';
    }
  }
  if (error instanceof errors.JOSEAlgNotAllowed || error instanceof errors.JOSENotSupported) {
    return `the signature algorithm of the access token is not accepted: use one of ${JWT_ALGORITHMS.join(', ')}`;
  }
  return 'the access token has no valid signature of its issuer: get a new one';
}
