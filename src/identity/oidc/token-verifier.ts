import { createHash } from 'node:crypto';
import { decodeJwt } from 'jose';
import { CLUSTER_ADMIN } from '../../model/service/index.ts';
import type { TokenVerifier } from '../authenticate.ts';
import { IdentityError } from '../errors.ts';
import { type Claims, readGroups } from '../groups.ts';
import type { User } from '../principal.ts';
import { type Issuer, lazyIssuer } from './issuer.ts';
import type { OidcLogger } from './logger.ts';
import { type VerifiedClaims, verifyToken } from './verify-token.ts';

/** Tokens remembered. More than the users of a cluster at work at one time; at most a few megabytes. */
const REMEMBERED_TOKENS = 10_000;

/**
 * Longest time without another look at a token that lives longer. Shorter: more questions to the issuer. Longer: who
 * lost their groups there, or whose key was withdrawn, is let in for longer.
 */
const TRUSTED_FOR = 60 * 60_000;

/**
 * How long somebody who is in no admitted group is refused without asking again: a client that polls must not make us
 * poll userinfo, and people who were just added want in soon. Nothing else bad is remembered: forging tokens costs
 * nothing, so that remembering them would only push out good ones.
 */
const REFUSED_FOR = 10_000;

export interface TokenVerifierOptions {
  /** By the exact name that their tokens carry in `iss`. Each may vouch for any uid, so trust them alike. */
  readonly issuers: readonly string[];
  /** Groups that are admitted; empty admits every user of the issuers. */
  readonly groups: readonly string[];
  /** What tokens must be made for; without it tokens made for any client of the issuer are good (S14). */
  readonly audience?: string | undefined;
  /** Claim with the groups, as in {@link readGroups}. */
  readonly groupsClaim?: string | undefined;
  /** Uids of operators. */
  readonly usersAdmin: readonly string[];
  readonly now?: (() => number) | undefined;
  readonly logger?: OidcLogger | undefined;
}

/**
 * Knows users by the access tokens of the configured issuers. A token that was verified is known again by its hash
 * until it expires; requests that bring a new one at the same time share one verification.
 */
export function createTokenVerifier(options: TokenVerifierOptions): TokenVerifier {
  const now = options.now ?? Date.now;
  const issuers = new Map(options.issuers.map((url) => [url, lazyIssuer(url, { now, logger: options.logger })]));
  const verified = new VerificationCache(REMEMBERED_TOKENS);
  const pending = new Map<string, Promise<VerificationResult>>();

  async function verifyUncached(token: string, hash: string): Promise<VerificationResult> {
    const url = readIssuer(token);
    const connect = issuers.get(url);
    if (!connect) {
      throw new IdentityError('bad-token', 'the access token is of an issuer that is not accepted here: use another');
    }
    const issuer = await connect();
    const claims = await verifyToken(token, issuer, { issuer: url, audience: options.audience, now });
    const uid = readUid(claims);
    const { groups, about } = await learnGroups(token, uid, claims, issuer);

    if (options.groups.length > 0 && !options.groups.some((group) => groups.includes(group))) {
      const refusal = new IdentityError(
        'not-in-group',
        `you are in none of the groups that are admitted here (${options.groups.join(', ')}): join one of them`,
      );
      verified.keep(hash, { refusal }, Math.min(claims.exp * 1000, now() + REFUSED_FOR));
      return { refusal };
    }

    const user: User = Object.freeze({
      kind: 'user',
      uid,
      issuer: url,
      name: readPersonName(claims) ?? readPersonName(about) ?? uid,
      groups: Object.freeze(groups),
      operator: options.usersAdmin.includes(uid),
    });
    verified.keep(hash, { user }, Math.min(claims.exp * 1000, now() + TRUSTED_FOR));
    return { user };
  }

  /** The issuer is asked only if groups matter and the token itself is silent about them (R13). */
  async function learnGroups(token: string, uid: string, claims: VerifiedClaims, issuer: Issuer) {
    const { authorizationEndpoint } = issuer;
    const read = (from: Claims) =>
      readGroups({ claims: from, authorizationEndpoint, groupsClaim: options.groupsClaim });

    const groups = read(claims);
    if (groups || options.groups.length === 0) return { groups: groups ?? [], about: {} };
    const about = (await issuer.userinfo(token, uid)) ?? {};
    return { groups: read(about) ?? [], about };
  }

  return {
    async verify(token) {
      const hash = createHash('sha256').update(token).digest('base64');
      let verdict = verified.find(hash, now());
      if (!verdict) {
        const judging = pending.get(hash) ?? verifyUncached(token, hash).finally(() => pending.delete(hash));
        pending.set(hash, judging);
        verdict = await judging;
      }
      if ('refusal' in verdict) throw verdict.refusal;
      return verdict.user;
    },
  };
}

/** Whom a token says it is of; believed only after its signature was verified with that issuer's keys. */
function readIssuer(token: string): string {
  try {
    const { iss } = decodeJwt(token);
    if (typeof iss === 'string') return iss;
  } catch (cause) {
    throw new IdentityError('bad-token', 'the bearer is not a JWT: send an access token of your issuer', { cause });
  }
  throw new IdentityError('bad-token', 'the access token does not say who issued it: send one of your issuer');
}

/** Longest `sub` that an issuer may use (OpenID Connect Core §2). */
const UID_LENGTH = 255;

/** Longest name shown; anything beyond is not a name. */
const NAME_LENGTH = 255;

/** What does not print, or changes how its neighbours print. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u;

/**
 * The uid of the person a token is about. It goes into labels, names and logs, and decides who owns what, so that a
 * user called like the owner of the administrator's services would own them.
 *
 * @throws {IdentityError} `bad-token`
 */
export function readUid(claims: Claims): string {
  const uid = claims['sub'];
  if (typeof uid !== 'string' || uid.trim() === '' || uid.length > UID_LENGTH || INVISIBLE.test(uid)) {
    throw new IdentityError(
      'bad-token',
      'the access token does not say who you are: its "sub" must be a readable text',
    );
  }
  if (uid === CLUSTER_ADMIN) {
    throw new IdentityError('bad-token', `no user may be called "${CLUSTER_ADMIN}": ask the issuer for another "sub"`);
  }
  return uid;
}

/** The name of that person for people to read, if the claims have one. */
export function readPersonName(claims: Claims): string | undefined {
  return [claims['name'], claims['preferred_username']].map(readable).find((name) => name !== '');
}

function readable(value: unknown): string {
  if (typeof value !== 'string') return '';
  return value.replace(new RegExp(INVISIBLE, 'gu'), '').trim().slice(0, NAME_LENGTH);
}

/** Who a verified token belongs to, or why its holder is not let in. */
export type VerificationResult = { readonly user: User } | { readonly refusal: IdentityError };

interface Entry {
  readonly verdict: VerificationResult;
  readonly until: number;
}

/**
 * Verdicts by the hash of their token, the least recently used forgotten first. None is told after its time: what was
 * true of a token says nothing about it once it has expired.
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
    return entry.verdict;
  }

  keep(hash: string, verdict: VerificationResult, until: number): void {
    this.#entries.delete(hash);
    this.#entries.set(hash, { verdict, until });
    if (this.#entries.size <= this.#capacity) return;
    const [oldest] = this.#entries.keys();
    if (oldest !== undefined) this.#entries.delete(oldest);
  }
}
