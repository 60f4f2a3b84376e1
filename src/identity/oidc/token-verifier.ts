import { createHash } from 'node:crypto';
import { decodeJwt } from 'jose';
import type { TokenVerifier } from '../authenticate.ts';
import { IdentityError } from '../errors.ts';
import { type Claims, readGroups } from '../groups.ts';
import type { User } from '../principal.ts';
import { INVISIBLE, type IssuerSettings, UserNames } from '../user-names.ts';
import { type Issuer, lazyIssuer, type OidcLogger } from './issuer.ts';
import { type VerifiedClaims, verifyToken } from './verify-token.ts';

/**
 * Entries of the cache. Fewer: tokens are verified again while their users are active. More: memory, a few megabytes for
 * this number.
 */
const CACHE_SIZE = 10_000;

/**
 * Longest time for which a verification is cached. Shorter: more requests to the issuer. Longer: a user who was removed from
 * a group, or a token whose key was withdrawn, is accepted for longer.
 */
const CACHED_FOR = 60 * 60_000;

/**
 * How long a user who is in no admitted group is rejected without asking the issuer again. Shorter: a polling client causes
 * more userinfo requests. Longer: users who were just added to a group wait longer. Other failures are not cached: forged
 * tokens cost nothing to create, and would evict the valid ones.
 */
const REJECTION_CACHED_FOR = 10_000;

export interface TokenVerifierOptions extends IssuerSettings {
  /** Admitted groups; an empty list admits every user of the issuers. */
  readonly groups: readonly string[];
  /**
   * Tokens must be for one of these audiences, or issued to one of these clients. If empty, tokens of every application of the
   * issuers are accepted (S14).
   */
  readonly audiences?: readonly string[] | undefined;
  /** Issuers whose access tokens have the form of ID tokens: their ID tokens are accepted too (decision 0064). */
  readonly idTokenIssuers?: readonly string[] | undefined;
  /** Claim with the groups, as in {@link readGroups}. */
  readonly groupsClaim?: string | undefined;
  /** Uids of operators. */
  readonly usersAdmin: readonly string[];
  readonly now?: (() => number) | undefined;
  readonly logger?: OidcLogger | undefined;
}

/**
 * Verifies access tokens of the configured issuers. Verified tokens are cached by their hash until they expire; concurrent
 * requests with the same new token share one verification.
 */
export function createTokenVerifier(options: TokenVerifierOptions): TokenVerifier {
  const now = options.now ?? Date.now;
  const names = new UserNames(options);
  const issuers = new Map(options.issuers.map((url) => [url, lazyIssuer(url, { now, logger: options.logger })]));
  const verified = new VerificationCache(CACHE_SIZE);
  const pending = new Map<string, Promise<VerificationResult>>();

  async function verifyUncached(token: string, hash: string): Promise<VerificationResult> {
    const url = readIssuer(token);
    const connect = issuers.get(url);
    if (!connect) {
      throw new IdentityError(
        'bad-token',
        'the issuer of the access token is not accepted here: use a token of another issuer',
      );
    }
    const issuer = await connect();
    const { audiences = [], idTokenIssuers = [] } = options;
    const claims = await verifyToken(token, issuer, {
      issuer: url,
      audiences,
      idTokens: idTokenIssuers.includes(url),
      now,
    });
    const uid = names.uidFor(url, claims.sub);
    const subject = String(claims.sub);
    const { groups, userinfo } = await findGroups(token, subject, claims, issuer);

    if (options.groups.length > 0 && !options.groups.some((group) => groups.includes(group))) {
      const refusal = new IdentityError(
        'not-in-group',
        `you are in none of the groups that this cluster admits (${options.groups.join(', ')}): join one of them`,
      );
      verified.keep(hash, { refusal }, Math.min(claims.exp * 1000, now() + REJECTION_CACHED_FOR));
      return { refusal };
    }

    const user: User = Object.freeze({
      kind: 'user',
      uid,
      issuer: url,
      subject,
      name: readPersonName(claims) ?? readPersonName(userinfo) ?? subject,
      groups: Object.freeze(groups),
      operator: options.usersAdmin.includes(uid),
    });
    verified.keep(hash, { user }, Math.min(claims.exp * 1000, now() + CACHED_FOR));
    return { user };
  }

  /** Userinfo is requested only if groups are restricted and the token has no groups claim (R13). */
  async function findGroups(token: string, subject: string, claims: VerifiedClaims, issuer: Issuer) {
    const { authorizationEndpoint } = issuer;
    const read = (from: Claims) =>
      readGroups({ claims: from, authorizationEndpoint, groupsClaim: options.groupsClaim });

    const groups = read(claims);
    if (groups || options.groups.length === 0) return { groups: groups ?? [], userinfo: {} };
    const userinfo = (await issuer.userinfo(token, subject)) ?? {};
    return { groups: read(userinfo) ?? [], userinfo };
  }

  return {
    async verify(token) {
      const hash = createHash('sha256').update(token).digest('base64');
      let result = verified.find(hash, now());
      if (!result) {
        const judging = pending.get(hash) ?? verifyUncached(token, hash).finally(() => pending.delete(hash));
        pending.set(hash, judging);
        result = await judging;
      }
      if ('refusal' in result) throw result.refusal;
      return result.user;
    },
  };
}

/** The issuer that a token names. Trusted only after the signature was verified with the keys of that issuer. */
function readIssuer(token: string): string {
  try {
    const { iss } = decodeJwt(token);
    if (typeof iss === 'string') return iss;
  } catch (cause) {
    throw new IdentityError('bad-token', 'the bearer token is not a JWT: send an access token of your issuer', {
      cause,
    });
  }
  throw new IdentityError('bad-token', 'the access token has no "iss": send an access token of your issuer');
}

/** Names are cut to this length for display. */
const NAME_LENGTH = 255;

/** Reads the display name of the user, if the claims have one. */
export function readPersonName(claims: Claims): string | undefined {
  return [claims['name'], claims['preferred_username']].map(readable).find((name) => name !== '');
}

function readable(value: unknown): string {
  if (typeof value !== 'string') return '';
  return value.replace(new RegExp(INVISIBLE, 'gu'), '').trim().slice(0, NAME_LENGTH);
}

/** The user of a verified token, or why the user is rejected. */
export type VerificationResult = { readonly user: User } | { readonly refusal: IdentityError };

interface Entry {
  readonly result: VerificationResult;
  readonly until: number;
}

/**
 * An LRU cache of verification results by the hash of their token. An entry is never returned after its expiry.
 */
export class VerificationCache {
  readonly #entries = new Map<string, Entry>();
  readonly #capacity: number;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  find(hash: string, now: number): VerificationResult | undefined {
    const entry = this.#entries.get(hash);
    if (!entry) return undefined;
    this.#entries.delete(hash);
    if (now >= entry.until) return undefined;
    this.#entries.set(hash, entry);
    return entry.result;
  }

  keep(hash: string, result: VerificationResult, until: number): void {
    this.#entries.delete(hash);
    this.#entries.set(hash, { result, until });
    if (this.#entries.size <= this.#capacity) return;
    const [oldest] = this.#entries.keys();
    if (oldest !== undefined) this.#entries.delete(oldest);
  }
}
