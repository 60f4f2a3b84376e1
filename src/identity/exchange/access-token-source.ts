import { setTimeout as pause } from 'node:timers/promises';
import { jitter } from '../../lib/retry.ts';
import type { Secret } from '../../lib/secret.ts';
import type { Service } from '../../model/service/index.ts';
import { type AuditLog, isRace } from '../../ports/index.ts';
import type { TokenVerifier } from '../authenticate.ts';
import { findGrant, type Submitter } from '../grants/attach.ts';
import { GrantError } from '../grants/errors.ts';
import { type Grant, type GrantRecord, isAlive, readGrant, type Vault } from '../grants/grant.ts';
import { acquireGrantLock, type HeldGrantLock, releaseGrantLock } from '../grants/grant-lock.ts';
import {
  endGrant,
  OTHER_USER,
  proveGrant,
  recordRefusal,
  recordUse,
  recordWideToken,
  rotateGrant,
} from '../grants/lifecycle.ts';
import { releaseGrant, retainGrant } from '../grants/retain.ts';
import type { OidcLogger } from '../oidc/issuer.ts';
import { type IssuerSettings, UserNames } from '../user-names.ts';
import {
  type AccessToken,
  AuthorizationServer,
  isIssuerUnavailable,
  REDEEM_DEADLINE,
  type Redeemed,
} from './authorization-server.ts';
import { chooseClient, chooseIssuer, type OidcClient, readHints } from './choose.ts';
import { ExchangeError, type ExchangeErrorCode } from './errors.ts';
import { identifySubject } from './identify-subject.ts';

/** `issuers` is empty if OIDC is off. */
export interface AccessTokenSourceOptions extends IssuerSettings {
  readonly vault: Vault;
  /** Identifies the user of an access token, as for incoming requests. */
  readonly verifier?: TokenVerifier | undefined;
  /** `OIDC_CLIENT_ID` and `OIDC_CLIENT_SECRET`. */
  readonly client?: OidcClient | undefined;
  /** `OIDC_TOKEN_EXCHANGE`: whether tokens for an audience are restricted to it. `auto` by default. */
  readonly narrow?: 'auto' | 'true' | 'false' | undefined;
  readonly audit?: AuditLog | undefined;
  readonly log: OidcLogger;
}

/** Stored as the reason of a grant whose refresh token the issuer rejected. */
const REFUSED = 'its issuer refuses the refresh token as expired, revoked or of another client';

/** How long storing a rotated token may take. It must fit into the grant lock: the next holder sends the stored token. */
const STORE_MS = 10_000;

/**
 * How long a create waits for the issuer. Shorter: creates fail at issuers that are slow. Longer: the create itself exceeds
 * the time that its caller waits.
 */
const PROOF_MS = 3_000;

/** An issuer, and the client id that this manager uses there. */
interface IssuerClient {
  readonly server: AuthorizationServer;
  readonly client: OidcClient;
}

type GrantService = Pick<Service, 'uid' | 'owner'>;

/** The user who sends a refresh token. */
type TokenUser = Submitter & { readonly kind: 'user' };

/**
 * Gets access tokens of a service's owner from the grant of that service, so that the manager can act for users who are
 * not connected (docs/invoking-async.md#the-refresh-token). All managers that share the vault do one exchange at a time per
 * grant, and store a rotated refresh token before they use the access token that came with it.
 */
export class AccessTokenSource {
  readonly #options: AccessTokenSourceOptions;
  readonly #names: UserNames;
  readonly #servers: readonly AuthorizationServer[];
  readonly #tokens: TokenCache;
  /** Rotated refresh tokens that could not be stored yet, by grant. The stored ones are spent, so losing these ends the grant. */
  readonly #unsaved = new Map<string, Rotation>();

  constructor(options: AccessTokenSourceOptions) {
    const { vault, issuers, log } = options;
    this.#options = options;
    this.#names = new UserNames(options);
    this.#tokens = new TokenCache(vault.now);
    this.#servers = issuers.map((url) => new AuthorizationServer(url, { now: vault.now, logger: log }));
  }

  /**
   * Returns an access token of the service's owner; `why` goes to the audit log. With an audience, the token is valid for
   * that audience only, or the grant stores why it is not. With `narrow: 'true'` such a token is never returned.
   *
   * @throws {ExchangeError}, or the error of the secret store if the vault cannot be reached
   */
  async getToken(service: GrantService, why: string, { audience }: { audience?: string } = {}): Promise<Secret> {
    const { vault, log } = this.#options;
    const { grant, token: refresh } = await this.#usableGrant(service);
    // The issuer is resolved only on a cache miss.
    const issuer = () => this.#recordingRefusal(grant, async () => this.#issuerFor(grant, refresh));
    const wide = () => this.#tokens.get(grant.id, async () => this.#exchange(grant, await issuer()));
    const { token } = audience === undefined ? await wide() : await this.#narrowed(grant, audience, issuer, wide);
    recordUse(
      { grant: grant.id, owner: grant.owner, service: service.uid, why, at: vault.now() },
      log,
      this.#options.audit,
    );
    return token;
  }

  /**
   * Redeems a refresh token for a service that does not exist yet, so that a token which is not valid, or another user's, is
   * rejected before anything is created. The rotated token is retained until {@link releaseToken}, or for a day. A token
   * whose user is known is not redeemed again. One that this manager may not redeem, because of its settings or those of the
   * issuer, is `unchecked`; the grant stores the reason.
   *
   * @throws {ExchangeError} `token-rejected`, `subject-unknown` or `issuer-unavailable`; {GrantError} for another user's token
   */
  async proveToken(token: Secret, user: TokenUser): Promise<'proven' | 'unchecked'> {
    const { vault } = this.#options;
    const id = await retainGrant(token, user, vault);
    const { grant } = (await readGrant(id, vault)) ?? {};
    if (!grant || grant.state === 'proven') {
      if (grant && grant.services.length > 1) await releaseGrant(token, vault);
      return 'proven';
    }
    const proof = this.#proveRetained(grant, token);
    // An issuer that is late may still answer; then the rotated token is retained.
    proof.catch(() => undefined);
    return Promise.race([proof, rejectAfter(PROOF_MS)]);
  }

  async #proveRetained(grant: Grant, token: Secret): Promise<'proven' | 'unchecked'> {
    const { vault, log, audit } = this.#options;
    try {
      const issuer = await this.#recordingRefusal(grant, async () => this.#issuerFor(grant, token));
      await this.#tokens.get(grant.id, () => this.#exchange(grant, issuer));
      recordUse({ grant: grant.id, owner: grant.owner, service: '', why: 'prove', at: vault.now() }, log, audit);
      return 'proven';
    } catch (error) {
      if (!(error instanceof ExchangeError)) throw error;
      if (error.code === 'exchange-refused') return 'unchecked';
      const ended = await readGrant(grant.id, vault);
      await releaseGrant(token, vault);
      if (error.code === 'issuer-unavailable') throw uncheckedToken(error);
      throw error.code === 'credentials-expired' ? rejectedToken(ended?.grant.reason ?? REFUSED) : error;
    }
  }

  /** Ends what {@link proveToken} retains. Calling it again is a no-op. */
  async releaseToken(token: Secret): Promise<void> {
    await releaseGrant(token, this.#options.vault);
  }

  /** Redeems the refresh token of a service if its user is not known yet. The status of the service shows the result. */
  async proveGrantOf(service: GrantService): Promise<void> {
    const { grant } = (await findGrant(service, this.#options.vault)) ?? {};
    if (!grant || grant.local || grant.state !== 'unproven') return;
    await this.getToken(service, 'prove').catch((err: unknown) => {
      if (!(err instanceof ExchangeError)) throw err;
    });
  }

  /**
   * Revokes the refresh token of a service at its issuer and ends the grant, for all services that share it. If the issuer
   * is unavailable, nothing has changed and the caller must retry. A service without a grant is a no-op.
   */
  async revokeGrant(service: GrantService): Promise<void> {
    const { vault, log } = this.#options;
    const { grant } = (await findGrant(service, vault)) ?? {};
    if (!grant) return;
    const lock = grant.local ? undefined : await this.#acquireLock(grant.id);
    if (lock) {
      recordUse(
        { grant: grant.id, owner: grant.owner, service: service.uid, why: 'revoke', at: vault.now() },
        log,
        this.#options.audit,
      );
      try {
        const { server, client } = this.#issuerFor(grant, lock.token);
        await server.revoke(lock.token, client);
      } catch (err) {
        if (!(err instanceof ExchangeError) || isIssuerUnavailable(err)) {
          await releaseGrantLock(grant.id, lock.holder, vault);
          throw err;
        }
        log.warn({ grant: grant.id, err }, 'refresh token deleted, but not revoked at its issuer');
      }
    }
    await endGrant(grant.id, 'revoked by its owner', vault);
  }

  async #usableGrant(service: GrantService): Promise<GrantRecord & { token: Secret }> {
    const record = await findGrant(service, this.#options.vault);
    if (record?.grant.local) {
      throw new ExchangeError(
        'local-grant',
        'the refresh token was sent with Basic credentials and is not used: its user must send it with an access token',
      );
    }
    if (record?.grant.owner !== service.owner) {
      throw new ExchangeError(
        'no-grant',
        'the service has no refresh token of its owner: send one as environment.secrets.refresh_token',
      );
    }
    const { grant, token } = record;
    if (!token || !isAlive(grant)) throw expired(grant);
    return { ...record, token };
  }

  /** The issuer and client for the token of a grant. They are the same for the whole lineage. */
  #issuerFor(grant: Grant, token: Secret): IssuerClient {
    const hints = readHints(token);
    return {
      server: chooseIssuer(grant, hints, this.#servers),
      client: chooseClient(hints, this.#options.client),
    };
  }

  async #narrowed(
    grant: Grant,
    audience: string,
    issuer: () => Promise<IssuerClient>,
    wide: () => Promise<AccessToken>,
  ): Promise<AccessToken> {
    const narrowed = await this.#tryNarrow(grant, audience, issuer, wide);
    if (typeof narrowed !== 'string') {
      await this.#recordWide(grant, audience, undefined);
      return narrowed;
    }
    if (this.#options.narrow !== 'true') {
      const token = await wide();
      await this.#recordWide(grant, audience, narrowed);
      return token;
    }
    const message = `no access token is sent to "${audience}" unless it is valid there alone (OIDC_TOKEN_EXCHANGE): ${narrowed}`;
    throw new ExchangeError('exchange-refused', message);
  }

  /**
   * Returns why the token cannot be narrowed if that is for good. An issuer that is unavailable throws instead: an outage
   * must not widen a token.
   */
  async #tryNarrow(
    grant: Grant,
    audience: string,
    issuer: () => Promise<IssuerClient>,
    wide: () => Promise<AccessToken>,
  ): Promise<AccessToken | string> {
    if (this.#options.narrow === 'false') return 'OIDC_TOKEN_EXCHANGE is false';
    const { server } = await issuer();
    if (!(await server.canNarrow())) return `${server.url} does not support token exchange (RFC 8693)`;
    try {
      return await this.#tokens.get(`${grant.id} ${audience}`, async () =>
        server.narrow(await wide(), audience, (await issuer()).client),
      );
    } catch (error) {
      if (error instanceof ExchangeError && error.code === 'exchange-refused') return error.message;
      throw error;
    }
  }

  /** Only for display, as {@link #recordRefusal}. */
  async #recordWide({ id, wide }: Grant, audience: string, reason: string | undefined): Promise<void> {
    if (wide?.[audience] === reason) return;
    const { vault, log } = this.#options;
    if (reason !== undefined) log.warn({ grant: id, audience, reason }, 'access token not narrowed');
    await recordWideToken(id, audience, reason, vault).catch((err: unknown) =>
      log.warn({ grant: id, err }, 'reason for a wide token not recorded'),
    );
  }

  async #exchange(grant: Grant, issuer: IssuerClient): Promise<AccessToken> {
    const access = await this.#recordingRefusal(grant, () => this.#exchangeAt(grant.id, issuer));
    if (grant.refusal) await this.#recordRefusal(grant, undefined);
    return access;
  }

  async #exchangeAt(id: string, issuer: IssuerClient): Promise<AccessToken> {
    try {
      // Discovery happens before the lock is acquired, because the lock is held for a short time only.
      await issuer.server.issuer();
      for (;;) {
        const lock = await this.#acquireLock(id);
        if (!lock) throw expired((await readGrant(id, this.#options.vault))?.grant);
        const access = await this.#exchangeWithLock(lock, issuer);
        if (access !== 'lost') return access;
      }
    } catch (err) {
      this.#options.log.warn({ grant: id, issuer: issuer.server.url, err }, 'refresh token not exchanged');
      throw err;
    }
  }

  /** Stores a refusal that affects all tokens of a grant, so that it is shown with the service. */
  async #recordingRefusal<T>(grant: Grant, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (err) {
      if (err instanceof ExchangeError && (err.code === 'exchange-refused' || err.code === 'subject-unknown'))
        await this.#recordRefusal(grant, err.message);
      throw err;
    }
  }

  /** Only for display: a failure to store it does not affect the token. */
  async #recordRefusal({ id, refusal }: Grant, reason: string | undefined): Promise<void> {
    if (refusal?.reason === reason) return;
    const { vault, log } = this.#options;
    await recordRefusal(id, reason, vault).catch((err: unknown) =>
      log.warn({ grant: id, err }, 'refusal not recorded'),
    );
  }

  async #acquireLock(id: string): Promise<HeldGrantLock | undefined> {
    const unsaved = this.#unsaved.get(id);
    if (unsaved) await this.#store(id, unsaved);
    return acquireGrantLock(id, this.#options.vault);
  }

  /** `lost`: the grant has another token by now, or has ended. */
  async #exchangeWithLock(lock: HeldGrantLock, issuer: IssuerClient): Promise<AccessToken | 'lost'> {
    const { grant, token } = lock;
    const { vault } = this.#options;
    const redeemed = await this.#redeem(lock, issuer);
    if (redeemed === 'lost') return redeemed;
    if (redeemed === 'token-invalid') {
      await endGrant(grant.id, REFUSED, vault, token);
      return 'lost';
    }
    if ((await this.#store(grant.id, { from: token, to: redeemed.refreshToken ?? token })) === 'lost') return 'lost';
    if (!redeemed.access) throw issuer.server.unavailable(new Error('its answer has no usable token'));
    if (grant.state === 'proven') return redeemed.access;
    return (await this.#prove(grant, redeemed, issuer)) ? redeemed.access : 'lost';
  }

  async #redeem(lock: HeldGrantLock, { server, client }: IssuerClient): Promise<Redeemed | 'token-invalid' | 'lost'> {
    const { vault } = this.#options;
    try {
      // After this time the lock could expire before the answer is stored, and another manager could spend the token.
      const latest = lock.until - REDEEM_DEADLINE - STORE_MS;
      if (vault.now() <= latest) return await server.redeem(lock.token, client);
    } catch (error) {
      await releaseGrantLock(lock.grant.id, lock.holder, vault);
      throw error;
    }
    await releaseGrantLock(lock.grant.id, lock.holder, vault);
    return 'lost';
  }

  /** Returns false, and ends the grant, if the token belongs to another user. */
  async #prove({ id }: Grant, redeemed: Redeemed, { server, client }: IssuerClient): Promise<boolean> {
    const { verifier, vault } = this.#options;
    const subject = verifier && (await identifySubject(redeemed, client, server, verifier, this.#names));
    if (subject) return proveGrant(id, subject, vault);
    throw new ExchangeError(
      'subject-unknown',
      `${server.url} does not identify the user of the refresh token: send one with the scopes openid and offline_access`,
    );
  }

  async #store(id: string, rotation: Rotation): Promise<'stored' | 'lost'> {
    this.#unsaved.set(id, rotation);
    const outcome = await storeRotated(id, rotation, this.#options.vault).catch(async (error: unknown) => {
      if (!(error instanceof GrantError)) throw error;
      await endGrant(id, 'its issuer returned a refresh token that another grant already has', this.#options.vault);
      return 'lost' as const;
    });
    this.#unsaved.delete(id);
    return outcome;
  }
}

/** `reason` is why its grant ended. */
function rejectedToken(reason: string): ExchangeError | GrantError {
  if (reason === OTHER_USER) {
    return new GrantError(
      'grant-refused',
      'environment.secrets.refresh_token: this token belongs to another user and was not stored: get your own from your identity provider',
    );
  }
  return new ExchangeError(
    'token-rejected',
    `environment.secrets.refresh_token: ${reason}. Get a new one from your identity provider with the scope offline_access, for instance with oidc-agent or \`oscar login\``,
  );
}

async function rejectAfter(ms: number): Promise<never> {
  await pause(ms, undefined, { ref: false });
  throw uncheckedToken(new Error(`its issuer has not answered within ${ms / 1000} s`));
}

const uncheckedToken = (cause: Error) =>
  new ExchangeError(
    'issuer-unavailable',
    'environment.secrets.refresh_token could not be checked because its issuer does not answer: try again later',
    { cause },
  );

function expired(grant: Grant | undefined): ExchangeError {
  const reason = grant?.reason ?? 'its service was changed or removed';
  return new ExchangeError(
    'credentials-expired',
    `the refresh token is no longer valid (${reason}): update the service with a new one`,
  );
}

/** The refresh token that was sent to an issuer, and the one that it returned. */
interface Rotation {
  readonly from: Secret;
  /** Equal to `from` if the issuer does not rotate refresh tokens. */
  readonly to: Secret;
}

/** Wait after a lost compare-and-swap: another service joined or left the grant, which takes one or two store requests. */
const STORE_RETRY_MS = 5;

/**
 * Replaces the token of a grant with the rotated one, and retries while other services change the grant.
 * `lost` if the grant has ended or already has another token; the caller continues with that one.
 */
async function storeRotated(id: string, { from, to }: Rotation, vault: Vault): Promise<'stored' | 'lost'> {
  for (;;) {
    const record = await readGrant(id, vault);
    if (!record?.token || !isAlive(record.grant)) return 'lost';
    // An earlier write that was reported as failed has succeeded. (If `to` equals `from`, the lock is yet to be released.)
    if (record.token.equals(to) && !from.equals(to)) return 'stored';
    if (!record.token.equals(from)) return 'lost';
    try {
      await rotateGrant(id, record.version, to, vault);
      return 'stored';
    } catch (error) {
      if (!isRace(error)) throw error;
      await pause(jitter(STORE_RETRY_MS));
    }
  }
}

/**
 * A token is not returned from the cache this long before it expires. Shorter: it may expire in transit or while the
 * other cluster uses it. Longer: issuers whose tokens live for minutes get more requests.
 */
const MARGIN_MS = 30_000;

/**
 * How long a failure is cached, for callers that retry at once. It is cached per grant: the answer of an issuer to a forged
 * token must not delay other grants.
 */
const FAILURE_MS: Readonly<Partial<Record<string, number>>> = {
  'exchange-refused': 30_000,
  'subject-unknown': 30_000,
  'issuer-unavailable': 2_000,
} satisfies Partial<Record<ExchangeErrorCode, number>>;

type CacheEntry = ({ readonly access: AccessToken } | { readonly failure: ExchangeError }) & { readonly until: number };

/** Caches access tokens until shortly before they expire. Concurrent callers that miss the cache share one request. */
class TokenCache {
  readonly #now: () => number;
  readonly #entries = new Map<string, CacheEntry>();
  readonly #pending = new Map<string, Promise<AccessToken>>();

  constructor(now: () => number) {
    this.#now = now;
  }

  async get(key: string, fetch: () => Promise<AccessToken>): Promise<AccessToken> {
    const entry = this.#entries.get(key);
    if (entry && this.#now() < entry.until) {
      if ('access' in entry) return entry.access;
      throw entry.failure;
    }
    const pending = this.#pending.get(key) ?? this.#fetch(key, fetch).finally(() => this.#pending.delete(key));
    this.#pending.set(key, pending);
    return pending;
  }

  async #fetch(key: string, fetch: () => Promise<AccessToken>): Promise<AccessToken> {
    try {
      const access = await fetch();
      this.#put(key, { access, until: (access.expiresAt ?? -Infinity) - MARGIN_MS });
      return access;
    } catch (error) {
      if (error instanceof ExchangeError) {
        this.#put(key, { failure: error, until: this.#now() + (FAILURE_MS[error.code] ?? 0) });
      }
      throw error;
    }
  }

  #put(key: string, entry: CacheEntry): void {
    const now = this.#now();
    for (const [old, { until }] of this.#entries) if (until <= now) this.#entries.delete(old);
    if (entry.until > now) this.#entries.set(key, entry);
  }
}
