import {
  allowInsecureRequests,
  type ClientAuth,
  ClientSecretBasic,
  ClientSecretPost,
  Configuration,
  type CustomFetch,
  customFetch,
  genericGrantRequest,
  None,
  refreshTokenGrant,
  type ServerMetadata,
  tokenRevocation,
} from 'openid-client';
import { Secret } from '../../lib/secret.ts';
import { boundedRequest, ISSUER_DEADLINE } from '../oidc/bounded-fetch.ts';
import { type Issuer, type IssuerOptions, lazyIssuer } from '../oidc/issuer.ts';
import type { OidcClient } from './choose.ts';
import { ExchangeError } from './errors.ts';

/** RFC 8693 §2.1 and §3. */
const TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange';
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token';

/**
 * How long an issuer may take to redeem a refresh token. Shorter: an answer that comes later is not heard, and the token in
 * it, without which there is no way on where tokens are good once, is lost. Longer: jobs wait for an issuer that hangs.
 */
export const REDEEM_DEADLINE = 30_000;

export interface AccessToken {
  readonly token: Secret;
  /** Absent when the issuer does not say. */
  readonly expiresAt?: number;
}

/** What an issuer gave for a refresh token. */
export interface Redeemed {
  /** Instead of the one that it was shown; that one is spent, whatever is wrong with the rest. */
  readonly refreshToken?: Secret;
  /** Absent when the rest cannot be used. */
  readonly access?: AccessToken;
  readonly idToken?: Secret;
}

/** An issuer as the one who exchanges and revokes tokens. Found by its metadata, and dialled nowhere else (F9). */
export class AuthorizationServer {
  readonly url: string;
  readonly #now: () => number;
  readonly #connect: () => Promise<Issuer>;

  constructor(url: string, { now, logger }: IssuerOptions) {
    this.url = url;
    this.#now = now;
    this.#connect = lazyIssuer(url, { now, logger });
  }

  /** @throws {ExchangeError} `issuer-unavailable` */
  async issuer(): Promise<Issuer> {
    return this.#connect().catch((error: unknown) => {
      throw this.away(error instanceof Error ? error.cause : error);
    });
  }

  /** The tokens of a refresh token, as they were granted; `spent` if it is good for nothing any more. */
  async redeem(token: Secret, client: OidcClient): Promise<Redeemed | 'spent'> {
    const { metadata: told } = await this.issuer();
    const heard: IssuerResponse = {};
    const since = this.#now();
    const tokens = await this.#ask(heard, 'redeem the refresh token', () =>
      refreshTokenGrant(this.#configure(told, client, heard, REDEEM_DEADLINE), token.reveal()),
    );
    if (tokens === 'spent') return tokens;
    const [refresh, id] = [heard.body?.['refresh_token'], tokens?.id_token];
    return {
      ...(typeof refresh === 'string' && refresh !== '' && { refreshToken: new Secret(refresh) }),
      ...(tokens && { access: toAccessToken(tokens, since) }),
      ...(id !== undefined && { idToken: new Secret(id) }),
    };
  }

  async canNarrow(): Promise<boolean> {
    const { metadata: told } = await this.issuer();
    const types = told['grant_types_supported'];
    return Array.isArray(types) && types.includes(TOKEN_EXCHANGE);
  }

  /** A token that is good for one audience only, in exchange for one that is good for more. */
  async narrow({ token }: AccessToken, audience: string, client: OidcClient): Promise<AccessToken> {
    const { metadata: told } = await this.issuer();
    const heard: IssuerResponse = {};
    const since = this.#now();
    const parameters = {
      subject_token: token.reveal(),
      subject_token_type: ACCESS_TOKEN,
      requested_token_type: ACCESS_TOKEN,
      audience,
    };
    const what = `make a token for "${audience}" alone (OIDC_TOKEN_EXCHANGE)`;
    const tokens = await this.#ask(heard, what, () =>
      genericGrantRequest(this.#configure(told, client, heard), TOKEN_EXCHANGE, parameters),
    );
    if (tokens === 'spent') throw this.#refused(what, heard);
    if (!tokens) throw this.away(new Error('its answer has no token that can be used'));
    return toAccessToken(tokens, since);
  }

  /** Again, or with a token that it does not know: nothing happens. Issuers need not have such an endpoint (RFC 7009). */
  async revoke(token: Secret, client: OidcClient): Promise<void> {
    const { metadata: told } = await this.issuer();
    if (typeof told['revocation_endpoint'] !== 'string') return;
    const heard: IssuerResponse = {};
    await this.#ask(heard, 'revoke the refresh token', () =>
      tokenRevocation(this.#configure(told, client, heard), token.reveal(), { token_type_hint: 'refresh_token' }),
    );
  }

  /** Of what openid-client throws nothing is passed on: it holds answers, and those may hold tokens. */
  async #ask<T>(heard: IssuerResponse, what: string, ask: () => Promise<T>): Promise<T | 'spent' | undefined> {
    try {
      return await ask();
    } catch {
      const handling: Record<ResponseClass, () => 'spent' | undefined> = {
        answered: () => undefined,
        spent: () => 'spent',
        refused: () => {
          throw this.#refused(what, heard);
        },
        away: () => {
          throw this.away(heard.failure ?? new Error(`it answered with ${heard.status ?? 'nothing'}`));
        },
      };
      return handling[classifyResponse(heard)]();
    }
  }

  #configure(
    told: Issuer['metadata'],
    { id, secret }: OidcClient,
    heard: IssuerResponse,
    deadline = ISSUER_DEADLINE,
  ): Configuration {
    const config = new Configuration(
      told as ServerMetadata,
      id,
      undefined,
      secret ? clientAuthFor(told, secret) : None(),
    );
    config[customFetch] = recordingFetch(heard);
    config.timeout = deadline / 1000;
    // The operator chose plain http by the address of the issuer, or did not.
    if (this.url.startsWith('http:')) allowInsecureRequests(config);
    return config;
  }

  away(cause: unknown): ExchangeError {
    const sentence = `no access token can be got because ${this.url} does not answer as it should: it is tried again`;
    return new ExchangeError('issuer-unavailable', sentence, { cause });
  }

  #refused(what: string, heard: IssuerResponse): ExchangeError {
    return new ExchangeError(
      'exchange-refused',
      `${this.url} does not ${what} for this manager (${knownErrorCode(heard)}): ask the operator to check OIDC_CLIENT_ID, OIDC_CLIENT_SECRET and what that client may do there`,
    );
  }
}

export const isIssuerUnavailable = (error: unknown) =>
  error instanceof ExchangeError && error.code === 'issuer-unavailable';

/** Keeps what is heard: a new refresh token must not be lost because openid-client does not like the rest. */
const recordingFetch =
  (heard: IssuerResponse): CustomFetch =>
  async (url, { method, headers, body, signal }) => {
    try {
      if (!(body instanceof URLSearchParams)) throw new TypeError('only forms are sent to issuers');
      const response = await boundedRequest(url, { method, headers, body, ...(signal && { signal }) });
      heard.status = response.status;
      const parsed: unknown = await response
        .clone()
        .json()
        .catch(() => undefined);
      if (typeof parsed === 'object' && parsed !== null) heard.body = { ...parsed };
      return response;
    } catch (error) {
      heard.failure = error;
      throw error;
    }
  };

/** RFC 8414 §2: `client_secret_basic` if the issuer does not say what it takes. */
function clientAuthFor(told: Issuer['metadata'], secret: Secret): ClientAuth {
  const methods = told['token_endpoint_auth_methods_supported'];
  const takesBasic = !Array.isArray(methods) || methods.includes('client_secret_basic');
  return takesBasic ? ClientSecretBasic(secret.reveal()) : ClientSecretPost(secret.reveal());
}

function toAccessToken(tokens: { access_token: string; expires_in?: number | undefined }, since: number): AccessToken {
  const { access_token, expires_in } = tokens;
  return { token: new Secret(access_token), ...(expires_in !== undefined && { expiresAt: since + expires_in * 1000 }) };
}

/** What came back from an endpoint of an issuer. */
export interface IssuerResponse {
  /** Absent when there was no answer. */
  status?: number;
  /** Of an answer that is a JSON object. */
  body?: Readonly<Record<string, unknown>>;
  /** Why there was no answer. */
  failure?: unknown;
}

/**
 * `answered`: it did what it was asked. `spent`: it wants nothing to do with that token, ever. `refused`: it does not do
 * that for us. `away`: anything that says nothing, and may be otherwise a minute later.
 */
export type ResponseClass = 'answered' | 'spent' | 'refused' | 'away';

/** Some issuers say `invalid_token` of a refresh token, as they would of an access token. */
const SPENT: unknown[] = ['invalid_grant', 'invalid_token'];

/** RFC 6749 §4.1.2.1, RFC 8628 §3.5: not meant for the token endpoint, and used there. */
const LATER: unknown[] = ['temporarily_unavailable', 'server_error', 'slow_down'];

/** Request Timeout and Too Many Requests. */
const LATER_STATUS = [408, 429];

/** Whatever an issuer says in other words than RFC 6749 §5.2 has is said by something else: a proxy, a page of an error. */
export function classifyResponse({ status = 0, body = {} }: IssuerResponse): ResponseClass {
  if (status === 200) return 'answered';
  const { error } = body;
  if (status < 400 || status >= 500 || LATER_STATUS.includes(status)) return 'away';
  if (typeof error !== 'string' || LATER.includes(error)) return 'away';
  return SPENT.includes(error) ? 'spent' : 'refused';
}

/** Words of RFC 6749 §5.2, RFC 7009 §2.2.1 and RFC 8693 §2.2.2. Others are not repeated: they may hold anything. */
const KNOWN_ERROR_CODES = [
  'access_denied',
  'invalid_client',
  'invalid_grant',
  'invalid_request',
  'invalid_scope',
  'invalid_target',
  'invalid_token',
  'unauthorized_client',
  'unsupported_grant_type',
  'unsupported_token_type',
];

/** The issuer's own word for a refusal, for people to look up. */
export function knownErrorCode({ body }: IssuerResponse): string {
  return KNOWN_ERROR_CODES.find((word) => word === body?.['error']) ?? 'no reason';
}
