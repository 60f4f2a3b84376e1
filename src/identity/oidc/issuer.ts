import { createRemoteJWKSet, customFetch, errors, type JWTVerifyGetKey } from 'jose';
import { backoffDelay } from '../../lib/retry.ts';
import { IdentityError } from '../errors.ts';
import type { Claims } from '../groups.ts';
import { boundedFetch, type Fetch, ISSUER_DEADLINE } from './bounded-fetch.ts';

/** Reports the availability of issuers and uses of tokens to the operator. Compatible with pino. */
export interface OidcLogger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

/**
 * How long after fetching the keys an unknown key id does not cause another fetch. Shorter: tokens with forged key ids
 * cause more requests to the issuer. Longer: tokens that are signed with a new key are rejected for longer.
 */
const UNKNOWN_KEY_COOL_DOWN = 10_000;

/**
 * How long keys are used before they are fetched again. Shorter: more requests wait for the issuer, and fail if it is
 * down. Longer: tokens of a key that the issuer has withdrawn are accepted for longer.
 */
const KEYS_MAX_AGE = 10 * 60_000;

/** A discovered issuer. */
export interface Issuer {
  readonly authorizationEndpoint: string;
  /** The complete metadata document. */
  readonly metadata: Metadata['all'];
  /** Finds the key that signed a token. */
  readonly keys: JWTVerifyGetKey;
  /** Claims of the userinfo endpoint; `undefined` if the issuer has none. */
  userinfo(token: string, subject: string): Promise<Claims | undefined>;
}

export interface IssuerOptions {
  readonly now: () => number;
  readonly logger?: OidcLogger | undefined;
}

/**
 * An issuer that is discovered when it is first needed. If it cannot be reached, the error is `issuer-unavailable`, and the
 * first request after a cool-down tries again, without a restart (R12).
 */
export function lazyIssuer(url: string, { now, logger }: IssuerOptions): () => Promise<Issuer> {
  const failed = (err: unknown, retryIn: number) => logger?.warn({ issuer: url, err, retryIn }, 'issuer unavailable');
  const discoverAgain = withCoolDown(() => discover(url, boundedFetch), { now, failed });
  const fetchKeys = withCoolDown(fetchOk, { now, failed });
  const fetchUserinfo = withCoolDown(boundedFetch, { now, failed });

  const unavailable = (cause: unknown) =>
    new IdentityError(
      'issuer-unavailable',
      `could not verify the access token because ${url} does not answer correctly: try again in a minute`,
      { cause },
    );

  async function connect(): Promise<Issuer> {
    const {
      authorizationEndpoint,
      jwksUri,
      userinfoEndpoint,
      all: told,
    } = await discoverAgain().catch((error: unknown) => {
      throw unavailable(error);
    });
    logger?.info({ issuer: url }, 'issuer discovered');
    const keySet = createRemoteJWKSet(new URL(jwksUri), {
      timeoutDuration: ISSUER_DEADLINE,
      cooldownDuration: UNKNOWN_KEY_COOL_DOWN,
      cacheMaxAge: KEYS_MAX_AGE,
      [customFetch]: fetchKeys,
    });
    return {
      authorizationEndpoint,
      metadata: told,
      keys: (header, token) =>
        keySet(header, token).catch((error: unknown) => {
          throw isAboutToken(error) ? error : unavailable(error);
        }),
      userinfo: async (token, subject) =>
        userinfoEndpoint === undefined
          ? undefined
          : fetchClaims(userinfoEndpoint, token, subject, fetchUserinfo).catch((error: unknown) => {
              throw error instanceof IdentityError ? error : unavailable(error);
            }),
    };
  }

  let known: Promise<Issuer> | undefined;
  return () => {
    known ??= connect().catch((error: unknown) => {
      known = undefined;
      throw error;
    });
    return known;
  };
}

const fetchOk: Fetch = async (url, init) => {
  const response = await boundedFetch(url, init);
  if (response.status !== 200) throw new Error(`the jwks_uri of the issuer answered with ${response.status}`);
  return response;
};

/** Whether the search for a key failed because of the token, and not because of the issuer. */
function isAboutToken(error: unknown): boolean {
  return (
    error instanceof errors.JWKSNoMatchingKey ||
    error instanceof errors.JWKSMultipleMatchingKeys ||
    error instanceof errors.JOSENotSupported
  );
}

/** Wait after the first failure. Shorter: a burst of requests causes more attempts. Longer: users notice a short outage. */
const FIRST_WAIT = 1_000;

/** Longest wait. Longer: the end of an outage is noticed late. Shorter: more requests wait for an issuer that hangs. */
const LONGEST_WAIT = 30_000;

interface CoolDownOptions {
  readonly now: () => number;
  /** Called for each failure that starts a wait, not for the calls that fail during the wait. */
  readonly failed?: (reason: unknown, wait: number) => void;
}

/**
 * A circuit breaker: after a failure, calls fail at once for a while, twice as long after each further failure. So an
 * issuer that is down gets few requests and delays no caller. There is no timer: the first call after the wait is the next
 * attempt.
 */
export function withCoolDown<Args extends unknown[], T>(
  attempt: (...args: Args) => Promise<T>,
  { now, failed }: CoolDownOptions,
): (...args: Args) => Promise<T> {
  let failures = 0;
  let notBefore = -Infinity;
  let reason: unknown;

  return async (...args) => {
    if (now() < notBefore) throw reason;
    const round = failures;
    try {
      const result = await attempt(...args);
      failures = 0;
      return result;
    } catch (error) {
      // Concurrent attempts count as one failure.
      if (failures === round) {
        const wait = backoffDelay(round + 1, { first: FIRST_WAIT, longest: LONGEST_WAIT });
        [failures, notBefore, reason] = [round + 1, now() + wait, error];
        failed?.(error, wait);
      }
      throw error;
    }
  };
}

/** The parts of an issuer's metadata that we use. */
interface Metadata {
  readonly authorizationEndpoint: string;
  readonly jwksUri: string;
  readonly userinfoEndpoint: string | undefined;
  /** The complete document. */
  readonly all: Readonly<Record<string, unknown>> & { readonly issuer: string };
}

/**
 * Fetches the metadata of an issuer (OpenID Connect Discovery 1.0 §4). Its `issuer` must equal the configured one exactly
 * (§4.3); otherwise that server could impersonate another issuer.
 */
async function discover(issuer: string, fetch: Fetch): Promise<Metadata> {
  const response = await fetch(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`);
  if (response.status !== 200) throw new Error(`the metadata of the issuer was answered with ${response.status}`);

  const metadata: unknown = await response.json();
  if (!isRecord(metadata)) throw new Error('the metadata of the issuer is not an object');
  if (metadata['issuer'] !== issuer) {
    throw new Error(
      `the metadata names the issuer ${JSON.stringify(metadata['issuer'])}: set OIDC_ISSUERS to exactly this name`,
    );
  }
  const jwksUri = metadata['jwks_uri'];
  if (!isUrl(jwksUri)) throw new Error('the metadata of the issuer has no jwks_uri');

  const [authorization, userinfo] = [metadata['authorization_endpoint'], metadata['userinfo_endpoint']];
  return {
    authorizationEndpoint: isUrl(authorization) ? authorization : '',
    jwksUri,
    userinfoEndpoint: isUrl(userinfo) ? userinfo : undefined,
    all: { ...metadata, issuer },
  };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function isUrl(value: unknown): value is string {
  return typeof value === 'string' && URL.canParse(value);
}

/**
 * Fetches the claims of a token's user from userinfo (OpenID Connect Core §5.3). An answer about another subject than the
 * token's must not be used (§5.3.2).
 *
 * @throws {IdentityError} `bad-token` if the issuer rejects the token; any other error if it does not answer
 */
async function fetchClaims(endpoint: string, token: string, subject: string, fetch: Fetch): Promise<Claims> {
  const response = await fetch(endpoint, { headers: { authorization: `Bearer ${token}`, accept: 'application/json' } });
  if (response.status === 401 || response.status === 403) {
    throw new IdentityError(
      'bad-token',
      'the userinfo endpoint of the issuer rejected the access token: get a new one, with the scopes openid and profile',
    );
  }
  if (response.status !== 200) throw new Error(`the userinfo endpoint of the issuer answered with ${response.status}`);

  const claims: unknown = await response.json();
  if (typeof claims !== 'object' || claims === null || !('sub' in claims))
    throw new Error('the userinfo of the issuer has no sub');
  if (claims.sub !== subject) {
    throw new IdentityError(
      'bad-token',
      'the userinfo endpoint of the issuer reports another user for this access token: get a new one',
    );
  }
  return { ...claims };
}
