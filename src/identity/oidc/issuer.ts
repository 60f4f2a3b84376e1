import { createRemoteJWKSet, customFetch, errors, type JWTVerifyGetKey } from 'jose';
import { IdentityError } from '../errors.ts';
import type { Claims } from '../groups.ts';
import { boundedFetch, type Fetch, ISSUER_DEADLINE } from './bounded-fetch.ts';
import { withCoolDown } from './cool-down.ts';
import { discover, type Metadata } from './discover.ts';
import type { OidcLogger } from './logger.ts';
import { askUserinfo } from './userinfo.ts';

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
  readonly told: Metadata['told'];
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
export function issuerAt(url: string, { now, logger }: IssuerOptions): () => Promise<Issuer> {
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
    const { authorizationEndpoint, jwksUri, userinfoEndpoint, told } = await discoverAgain().catch((error: unknown) => {
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
      told,
      keys: (header, token) =>
        keySet(header, token).catch((error: unknown) => {
          throw isAboutToken(error) ? error : unavailable(error);
        }),
      userinfo: async (token, subject) =>
        userinfoEndpoint === undefined
          ? undefined
          : askUserinfo(userinfoEndpoint, token, subject, fetchUserinfo).catch((error: unknown) => {
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
