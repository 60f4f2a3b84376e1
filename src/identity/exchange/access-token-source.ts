import { setTimeout as pause } from 'node:timers/promises';
import type { Secret } from '../../lib/secret.ts';
import type { Service } from '../../model/service/index.ts';
import { isRace } from '../../ports/index.ts';
import type { TokenVerifier } from '../authenticate.ts';
import { findGrant } from '../grants/attach.ts';
import { GrantError } from '../grants/errors.ts';
import { type Grant, type GrantRecord, isAlive, readGrant, type Vault } from '../grants/grant.ts';
import { acquireGrantLock, type HeldGrantLock, releaseGrantLock } from '../grants/grant-lock.ts';
import { endGrant, proveGrant, recordRefusal, recordUse, rotateGrant } from '../grants/lifecycle.ts';
import type { OidcLogger } from '../oidc/logger.ts';
import {
  type AccessToken,
  AuthorizationServer,
  isIssuerUnavailable,
  REDEEM_DEADLINE,
  type Redeemed,
} from './authorization-server.ts';
import { chooseClient, chooseIssuer, type OidcClient, readHints } from './choose.ts';
import { ExchangeError } from './errors.ts';
import { identifySubject } from './identify-subject.ts';
import { TokenCache } from './kept-tokens.ts';

export interface AccessTokenSourceOptions {
  readonly vault: Vault;
  /** By their exact names; none where OIDC is off. */
  readonly issuers: readonly string[];
  /** Says whose an access token is, as it does of those who come in. */
  readonly verifier?: TokenVerifier | undefined;
  /** `OIDC_CLIENT_ID` and `OIDC_CLIENT_SECRET`. */
  readonly client?: OidcClient | undefined;
  /** `OIDC_TOKEN_EXCHANGE`: tokens for an audience are made for it alone. */
  readonly narrow?: boolean | undefined;
  readonly log: OidcLogger;
}

/** Why a grant has ended that its issuer does not honour. */
const REFUSED = 'its issuer refuses the refresh token as expired, revoked or of another client';

/** How long the store may take to keep what the issuer has given. Within the turn: the next one shows what is kept. */
const KEEPING_MS = 10_000;

/** An issuer, and as whom we go there. */
interface IssuerClient {
  readonly authority: AuthorizationServer;
  readonly client: OidcClient;
}

type GrantService = Pick<Service, 'uid' | 'owner'>;

/**
 * Makes access tokens of a service's owner from the grant of that service, so that the manager can act for users when they
 * are not there (docs/invoking-async.md#the-refresh-token). One exchange at a time per grant, here and in all managers
 * that share the vault; a new refresh token is stored before what came with it is used.
 */
export class AccessTokenSource {
  readonly #options: AccessTokenSourceOptions;
  readonly #authorities: readonly AuthorizationServer[];
  readonly #tokens: TokenCache;
  /** New refresh tokens that could not be stored yet, by grant: the old ones are spent, and only here is the way on. */
  readonly #unsaved = new Map<string, Rotation>();

  readonly #cannotNarrow = new Set<string>();

  constructor(options: AccessTokenSourceOptions) {
    const { vault, issuers, log } = options;
    this.#options = options;
    this.#tokens = new TokenCache(vault.now);
    this.#authorities = issuers.map((url) => new AuthorizationServer(url, { now: vault.now, logger: log }));
  }

  /**
   * An access token of the service's owner; `why` goes to the audit record. With an audience it is good for that one alone,
   * where this is wanted and the issuer can do it.
   *
   * @throws {ExchangeError} and, when the vault cannot be reached, what its store throws
   */
  async getToken(service: GrantService, why: string, { audience }: { audience?: string } = {}): Promise<Secret> {
    const { vault, narrow, log } = this.#options;
    const { grant, token: refresh } = await this.#usableGrant(service);
    // Only who goes there needs to know where: mostly there is a token at hand.
    const desk = () => this.#noting(grant, async () => this.#deskFor(grant, refresh));
    const wide = () => this.#tokens.get(grant.id, async () => this.#exchange(grant, await desk()));
    const { token } =
      audience !== undefined && narrow && (await this.#canNarrow((await desk()).authority))
        ? await this.#tokens.get(`${grant.id} ${audience}`, async () => {
            const { authority, client } = await desk();
            return authority.narrow(await wide(), audience, client);
          })
        : await wide();
    recordUse({ grant: grant.id, owner: grant.owner, service: service.uid, why, at: vault.now() }, log);
    return token;
  }

  /**
   * Revokes the refresh token of a service at its issuer, and ends the grant, for all services that it is of. An issuer that
   * is away is to be asked again: nothing has changed then. Without a grant nothing happens.
   */
  async revokeGrant(service: GrantService): Promise<void> {
    const { vault, log } = this.#options;
    const { grant } = (await findGrant(service, vault)) ?? {};
    if (!grant) return;
    const turn = grant.local ? undefined : await this.#takeTurn(grant.id);
    if (turn) {
      recordUse({ grant: grant.id, owner: grant.owner, service: service.uid, why: 'revoke', at: vault.now() }, log);
      try {
        const { authority, client } = this.#deskFor(grant, turn.token);
        await authority.revoke(turn.token, client);
      } catch (err) {
        if (!(err instanceof ExchangeError) || isIssuerUnavailable(err)) {
          await releaseGrantLock(grant.id, turn.holder, vault);
          throw err;
        }
        log.warn({ grant: grant.id, err }, 'refresh token forgotten, but not revoked at its issuer');
      }
    }
    await endGrant(grant.id, 'revoked by its owner', vault);
  }

  async #usableGrant(service: GrantService): Promise<GrantRecord & { token: Secret }> {
    const record = await findGrant(service, this.#options.vault);
    if (record?.grant.local) {
      throw new ExchangeError(
        'local-grant',
        'the refresh token was brought with Basic credentials, and is not used: its user has to bring it with an access token',
      );
    }
    if (record?.grant.owner !== service.owner) {
      throw new ExchangeError(
        'no-grant',
        'the service has no refresh token of its owner: bring one under environment.secrets.refresh_token',
      );
    }
    const { grant, token } = record;
    if (!token || !isAlive(grant)) throw expired(grant);
    return { ...record, token };
  }

  /** Where the token of a grant is shown, and as whom: the same for its whole lineage. */
  #deskFor(grant: Grant, token: Secret): IssuerClient {
    const hints = readHints(token);
    return {
      authority: chooseIssuer(grant, hints, this.#authorities),
      client: chooseClient(hints, this.#options.client),
    };
  }

  /** Where the issuer cannot, tokens are as wide as they were granted: the operator is told once. */
  async #canNarrow(authority: AuthorizationServer): Promise<boolean> {
    if (await authority.canNarrow()) return true;
    const { url: issuer } = authority;
    if (!this.#cannotNarrow.has(issuer)) {
      this.#options.log.warn(
        { issuer },
        'issuer does not exchange tokens (RFC 8693): those for members are not narrowed',
      );
    }
    this.#cannotNarrow.add(issuer);
    return false;
  }

  async #exchange(grant: Grant, desk: IssuerClient): Promise<AccessToken> {
    const access = await this.#noting(grant, () => this.#exchangeAt(grant.id, desk));
    if (grant.refusal) await this.#note(grant, undefined);
    return access;
  }

  async #exchangeAt(id: string, desk: IssuerClient): Promise<AccessToken> {
    try {
      // Before it is our turn: a turn is short.
      await desk.authority.issuer();
      for (;;) {
        const turn = await this.#takeTurn(id);
        if (!turn) throw expired((await readGrant(id, this.#options.vault))?.grant);
        const access = await this.#exchangeInTurn(turn, desk);
        if (access !== 'lost') return access;
      }
    } catch (err) {
      this.#options.log.warn({ grant: id, issuer: desk.authority.url, err }, 'refresh token not exchanged');
      throw err;
    }
  }

  /** What stands in the way of all tokens of a grant is kept with it, so that whoever looks at a service can see it. */
  async #noting<T>(grant: Grant, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (err) {
      if (err instanceof ExchangeError && err.code === 'exchange-refused') await this.#note(grant, err.message);
      throw err;
    }
  }

  /** For people: that it cannot be written down changes nothing about the token. */
  async #note({ id, refusal }: Grant, reason: string | undefined): Promise<void> {
    if (refusal?.reason === reason) return;
    const { vault, log } = this.#options;
    await recordRefusal(id, reason, vault).catch((err: unknown) => log.warn({ grant: id, err }, 'refusal not noted'));
  }

  async #takeTurn(id: string): Promise<HeldGrantLock | undefined> {
    const unsaved = this.#unsaved.get(id);
    if (unsaved) await this.#keep(id, unsaved);
    return acquireGrantLock(id, this.#options.vault);
  }

  /** `lost`: the grant has another token by now, or none. */
  async #exchangeInTurn(turn: HeldGrantLock, desk: IssuerClient): Promise<AccessToken | 'lost'> {
    const { grant, token } = turn;
    const { vault } = this.#options;
    const redeemed = await this.#redeem(turn, desk);
    if (redeemed === 'lost') return redeemed;
    if (redeemed === 'spent') {
      await endGrant(grant.id, REFUSED, vault, token);
      return 'lost';
    }
    if ((await this.#keep(grant.id, { from: token, to: redeemed.refreshToken ?? token })) === 'lost') return 'lost';
    if (!redeemed.access) throw desk.authority.away(new Error('its answer has no token that can be used'));
    if (grant.state === 'proven') return redeemed.access;
    return (await this.#prove(grant, redeemed, desk)) ? redeemed.access : 'lost';
  }

  async #redeem(turn: HeldGrantLock, { authority, client }: IssuerClient): Promise<Redeemed | 'spent' | 'lost'> {
    const { vault } = this.#options;
    try {
      // Whoever was held up for so long may be given up soon, and the token be spent by somebody else.
      const latest = turn.until - REDEEM_DEADLINE - KEEPING_MS;
      if (vault.now() <= latest) return await authority.redeem(turn.token, client);
    } catch (error) {
      await releaseGrantLock(turn.grant.id, turn.holder, vault);
      throw error;
    }
    await releaseGrantLock(turn.grant.id, turn.holder, vault);
    return 'lost';
  }

  /** False when it is another user's: then it has ended. */
  async #prove({ id }: Grant, redeemed: Redeemed, { authority, client }: IssuerClient): Promise<boolean> {
    const { verifier, vault } = this.#options;
    const proof = verifier && (await identifySubject(redeemed, client, authority, verifier));
    if (proof) return proveGrant(id, proof, vault);
    throw new ExchangeError(
      'exchange-refused',
      `${authority.url} does not say whose the refresh token is: bring one that has the scopes openid and offline_access`,
    );
  }

  async #keep(id: string, rotation: Rotation): Promise<'kept' | 'lost'> {
    this.#unsaved.set(id, rotation);
    const outcome = await storeRotated(id, rotation, this.#options.vault).catch(async (error: unknown) => {
      if (!(error instanceof GrantError)) throw error;
      await endGrant(id, 'its issuer gave a refresh token that another grant has already', this.#options.vault);
      return 'lost' as const;
    });
    this.#unsaved.delete(id);
    return outcome;
  }
}

function expired(grant: Grant | undefined): ExchangeError {
  const reason = grant?.reason ?? 'its service was changed or removed';
  return new ExchangeError(
    'credentials-expired',
    `the refresh token is of no use any more (${reason}): update the service with a new one`,
  );
}

/** What an issuer gave for the token of a grant. */
interface Rotation {
  readonly from: Secret;
  /** The same where tokens are good for more than once. */
  readonly to: Secret;
}

/** A race is lost to somebody who joins the grant or leaves it: a request or two to the store. */
const AGAIN_MS = 5;

/**
 * Stores the new token of a grant in place of the one that was exchanged, however often others change the grant meanwhile.
 * `lost` when the grant has ended, or has yet another token: whoever came in between goes on with that one.
 */
async function storeRotated(id: string, { from, to }: Rotation, vault: Vault): Promise<'kept' | 'lost'> {
  for (;;) {
    const record = await readGrant(id, vault);
    if (!record?.token || !isAlive(record.grant)) return 'lost';
    // Kept by an attempt that was told otherwise. (Where it stays the same, the turn is yet to be ended.)
    if (record.token.equals(to) && !from.equals(to)) return 'kept';
    if (!record.token.equals(from)) return 'lost';
    try {
      await rotateGrant(id, record.version, to, vault);
      return 'kept';
    } catch (error) {
      if (!isRace(error)) throw error;
      await pause(AGAIN_MS * (0.5 + Math.random()));
    }
  }
}
