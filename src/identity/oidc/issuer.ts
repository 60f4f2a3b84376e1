import { createRemoteJWKSet, customFetch, errors, type JWTVerifyGetKey } from 'jose';
import { IdentityError } from '../errors.ts';
import type { Claims } from '../groups.ts';
import { boundedFetch, type Fetch, ISSUER_DEADLINE } from './bounded-fetch.ts';
import type { OidcLogger } from './logger.ts';

/**
 * How long after fetching the keys an unknown key id may make us fetch them again. Shorter: strangers who invent key
 * ids make us bother the issuer more often. Longer: tokens signed with a brand-new key are refused that long.
 */
const UNKNOWN_KEY_COOL_DOWN = 10_000;

/**
 * How long keys are used before they are fetched again. Shorter: more requests wait for the issuer, and need it to be
 * up. Longer: a key that the issuer has withdrawn signs good tokens for that long.
 */
const KEYS_MAX_AGE = 10 * 60_000;

/** An issuer that has told us about itself. */
export interface Issuer {
  readonly authorizationEndpoint: string;
  /** Its metadata. */
  readonly metadata: Metadata['all'];
  /** Finds the key that signed a token. */
  readonly keys: JWTVerifyGetKey;
  /** What it says about the holder of a token; `undefined` if it has no such endpoint. */
  userinfo(token: string, subject: string): Promise<Claims | undefined>;
}

export interface IssuerOptions {
  readonly now: () => number;
  readonly logger?: OidcLogger | undefined;
}

/**
 * An issuer, discovered when it is first needed and then kept. Whatever keeps us from asking it is
 * `issuer-unavailable`; after a cool-down the next request tries again, without a restart (R12).
 */
export function lazyIssuer(url: string, { now, logger }: IssuerOptions): () => Promise<Issuer> {
  const failed = (err: unknown, retryIn: number) => logger?.warn({ issuer: url, err, retryIn }, 'issuer unavailable');
  const discoverAgain = withCoolDown(() => discover(url, boundedFetch), { now, failed });
  const fetchKeys = withCoolDown(fetchOk, { now, failed });
  const fetchUserinfo = withCoolDown(boundedFetch, { now, failed });

  const unavailable = (cause: unknown) =>
    new IdentityError(
      'issuer-unavailable',
      `your access token cannot be checked because ${url} does not answer as it should: try again in a minute`,
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
  if (response.status !== 200) throw new Error(`its keys were answered with ${response.status}`);
  return response;
};

/** Whether looking for a key failed because of the token that names it, and not because of the issuer. */
function isAboutToken(error: unknown): boolean {
  return (
    error instanceof errors.JWKSNoMatchingKey ||
    error instanceof errors.JWKSMultipleMatchingKeys ||
    error instanceof errors.JOSENotSupported
  );
}

/** Wait after the first failure: a burst of requests makes one attempt, and people hardly notice. */
const FIRST_WAIT = 1_000;

/** Longest wait. Longer: an issuer that is back is noticed late. Shorter: one that hangs is waited for more often. */
const LONGEST_WAIT = 30_000;

interface CoolDownOptions {
  readonly now: () => number;
  /** Told of each failure that starts a wait, not of the calls that fail because of it. */
  readonly failed?: (reason: unknown, wait: number) => void;
}

/**
 * Makes a failing call fail at once for a while, twice as long after each further failure: what is down is asked
 * rarely and nobody waits for it. There is no timer, the first call after the wait is the next attempt.
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
      // Attempts that were under way together are one failure, not many.
      if (failures === round) {
        const wait = Math.min(FIRST_WAIT * 2 ** round, LONGEST_WAIT);
        [failures, notBefore, reason] = [round + 1, now() + wait, error];
        failed?.(error, wait);
      }
      throw error;
    }
  };
}

/** What we need to know of an issuer, from its metadata. */
interface Metadata {
  readonly authorizationEndpoint: string;
  readonly jwksUri: string;
  readonly userinfoEndpoint: string | undefined;
  /** All of it, as it was told. */
  readonly all: Readonly<Record<string, unknown>> & { readonly issuer: string };
}

/**
 * Reads the metadata of an issuer (OpenID Connect Discovery 1.0 §4). The issuer named inside must be the very string
 * that was configured (§4.3), or whoever answers there could speak for another.
 */
async function discover(issuer: string, fetch: Fetch): Promise<Metadata> {
  const response = await fetch(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`);
  if (response.status !== 200) throw new Error(`its metadata was answered with ${response.status}`);

  const metadata: unknown = await response.json();
  if (!isRecord(metadata)) throw new Error('its metadata is not an object');
  if (metadata['issuer'] !== issuer) {
    throw new Error(
      `its metadata is that of ${JSON.stringify(metadata['issuer'])}: configure the issuer by this very name`,
    );
  }
  const jwksUri = metadata['jwks_uri'];
  if (!isUrl(jwksUri)) throw new Error('its metadata has no jwks_uri');

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
 * What the issuer says about the holder of a token (OpenID Connect Core §5.3). An answer about another subject than the
 * token's must not be used (§5.3.2).
 *
 * @throws {IdentityError} `bad-token` when the issuer refuses the token, any other error when it does not answer
 */
async function fetchClaims(endpoint: string, token: string, subject: string, fetch: Fetch): Promise<Claims> {
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
