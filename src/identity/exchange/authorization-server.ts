import { decodeJwt, type JWTPayload } from 'jose';
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
 * How long an issuer may take to redeem a refresh token. Shorter: a late answer is lost, and with it the next refresh token
 * where issuers rotate them, which ends the grant. Longer: jobs wait for an issuer that hangs.
 */
export const REDEEM_DEADLINE = 30_000;

export interface AccessToken {
  readonly token: Secret;
  /** Absent if the issuer does not report it. */
  readonly expiresAt?: number;
}

/** The answer of an issuer to a refresh token. */
export interface Redeemed {
  /** Replaces the token that was sent, which is spent even if the rest of the answer is unusable. */
  readonly refreshToken?: Secret;
  /** Absent if the answer has no usable access token. */
  readonly access?: AccessToken;
  readonly idToken?: Secret;
}

/** Exchanges and revokes tokens at an issuer. Sends requests only to the endpoints in the issuer's metadata (F9). */
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
      throw this.unavailable(error instanceof Error ? error.cause : error);
    });
  }

  /** Exchanges a refresh token. Returns `token-invalid` if the issuer rejects it for good. */
  async redeem(token: Secret, client: OidcClient): Promise<Redeemed | 'token-invalid'> {
    const { metadata } = await this.issuer();
    const response: IssuerResponse = {};
    const since = this.#now();
    const tokens = await this.#request(response, 'redeem the refresh token', () =>
      refreshTokenGrant(this.#configure(metadata, client, response, REDEEM_DEADLINE), token.reveal()),
    );
    if (tokens === 'token-invalid') return tokens;
    const [refresh, id] = [response.body?.['refresh_token'], tokens?.id_token];
    return {
      ...(typeof refresh === 'string' && refresh !== '' && { refreshToken: new Secret(refresh) }),
      ...(tokens && { access: toAccessToken(tokens, since) }),
      ...(id !== undefined && { idToken: new Secret(id) }),
    };
  }

  async canNarrow(): Promise<boolean> {
    const { metadata } = await this.issuer();
    const types = metadata['grant_types_supported'];
    return Array.isArray(types) && types.includes(TOKEN_EXCHANGE);
  }

  /**
   * Exchanges an access token for one that is valid for a single audience. An issuer that ignores the audience counts as one
   * that refuses: a token that names another audience is not returned. An opaque token cannot be checked.
   */
  async narrow({ token }: AccessToken, audience: string, client: OidcClient): Promise<AccessToken> {
    const { metadata } = await this.issuer();
    const response: IssuerResponse = {};
    const since = this.#now();
    const parameters = {
      subject_token: token.reveal(),
      subject_token_type: ACCESS_TOKEN,
      requested_token_type: ACCESS_TOKEN,
      audience,
    };
    const what = `issue a token for "${audience}" alone (OIDC_TOKEN_EXCHANGE)`;
    const tokens = await this.#request(response, what, () =>
      genericGrantRequest(this.#configure(metadata, client, response), TOKEN_EXCHANGE, parameters),
    );
    if (tokens === 'token-invalid') throw this.#refused(what, response);
    if (!tokens) throw this.unavailable(new Error('its answer has no usable token'));
    if (!isForAudience(tokens.access_token, audience)) {
      throw new ExchangeError(
        'exchange-refused',
        `${this.url} does not restrict tokens to the audience that is requested`,
      );
    }
    return toAccessToken(tokens, since);
  }

  /** An unknown or already revoked token is a no-op. So is an issuer without a revocation endpoint (RFC 7009). */
  async revoke(token: Secret, client: OidcClient): Promise<void> {
    const { metadata } = await this.issuer();
    if (typeof metadata['revocation_endpoint'] !== 'string') return;
    const response: IssuerResponse = {};
    await this.#request(response, 'revoke the refresh token', () =>
      tokenRevocation(this.#configure(metadata, client, response), token.reveal(), {
        token_type_hint: 'refresh_token',
      }),
    );
  }

  /** Errors of openid-client are not passed on, because they contain answers, which may contain tokens. */
  async #request<T>(
    response: IssuerResponse,
    what: string,
    send: () => Promise<T>,
  ): Promise<T | 'token-invalid' | undefined> {
    try {
      return await send();
    } catch {
      switch (classifyResponse(response)) {
        case 'ok':
          return undefined;
        case 'token-invalid':
          return 'token-invalid';
        case 'refused':
          throw this.#refused(what, response);
        case 'unavailable':
          throw this.unavailable(response.failure ?? new Error(`it answered with ${response.status ?? 'nothing'}`));
      }
    }
  }

  #configure(
    metadata: Issuer['metadata'],
    { id, secret }: OidcClient,
    response: IssuerResponse,
    deadline = ISSUER_DEADLINE,
  ): Configuration {
    const auth = secret ? clientAuthFor(metadata, secret) : None();
    const config = new Configuration(metadata as ServerMetadata, id, undefined, auth);
    config[customFetch] = recordingFetch(response);
    config.timeout = deadline / 1000;
    // The operator allows plain http by configuring such an issuer address.
    if (this.url.startsWith('http:')) allowInsecureRequests(config);
    return config;
  }

  unavailable(cause: unknown): ExchangeError {
    const message = `cannot get an access token because ${this.url} does not answer correctly: the manager retries`;
    return new ExchangeError('issuer-unavailable', message, { cause });
  }

  #refused(what: string, response: IssuerResponse): ExchangeError {
    return new ExchangeError(
      'exchange-refused',
      `${this.url} does not ${what} for this manager (${knownErrorCode(response)}): ask the operator to check OIDC_CLIENT_ID, OIDC_CLIENT_SECRET and the permissions of that client`,
    );
  }
}

export const isIssuerUnavailable = (error: unknown) =>
  error instanceof ExchangeError && error.code === 'issuer-unavailable';

/** Records the response, so that a new refresh token is not lost if openid-client rejects the rest of it. */
const recordingFetch =
  (recorded: IssuerResponse): CustomFetch =>
  async (url, { method, headers, body, signal }) => {
    try {
      if (!(body instanceof URLSearchParams)) throw new TypeError('only forms are sent to issuers');
      const response = await boundedRequest(url, { method, headers, body, ...(signal && { signal }) });
      recorded.status = response.status;
      const parsed: unknown = await response
        .clone()
        .json()
        .catch(() => undefined);
      if (typeof parsed === 'object' && parsed !== null) recorded.body = { ...parsed };
      return response;
    } catch (error) {
      recorded.failure = error;
      throw error;
    }
  };

/** RFC 8414 §2: `client_secret_basic` is the default if the metadata lists no methods. */
function clientAuthFor(metadata: Issuer['metadata'], secret: Secret): ClientAuth {
  const methods = metadata['token_endpoint_auth_methods_supported'];
  const acceptsBasic = !Array.isArray(methods) || methods.includes('client_secret_basic');
  return acceptsBasic ? ClientSecretBasic(secret.reveal()) : ClientSecretPost(secret.reveal());
}

/** Whether a JWT names this audience and no other. */
function isForAudience(token: string, audience: string): boolean {
  let claims: JWTPayload;
  try {
    claims = decodeJwt(token);
  } catch {
    return true;
  }
  return [claims.aud].flat().every((each) => each === audience);
}

function toAccessToken(tokens: { access_token: string; expires_in?: number | undefined }, since: number): AccessToken {
  const { access_token, expires_in } = tokens;
  return { token: new Secret(access_token), ...(expires_in !== undefined && { expiresAt: since + expires_in * 1000 }) };
}

/** The response of an endpoint of an issuer. */
export interface IssuerResponse {
  /** Absent if there was no response. */
  status?: number;
  /** Present if the response is a JSON object. */
  body?: Readonly<Record<string, unknown>>;
  /** Why there was no response. */
  failure?: unknown;
}

/**
 * `token-invalid`: the issuer rejects this token for good. `refused`: the issuer does not do this for our client.
 * `unavailable`: the response says nothing about token or client, so that a retry may succeed.
 */
export type ResponseClass = 'ok' | 'token-invalid' | 'refused' | 'unavailable';

/** Some issuers answer a refresh token with `invalid_token`, the code for access tokens. */
const TOKEN_INVALID: unknown[] = ['invalid_grant', 'invalid_token'];

/** RFC 6749 §4.1.2.1, RFC 8628 §3.5: not specified for the token endpoint, but used there. */
const RETRYABLE: unknown[] = ['temporarily_unavailable', 'server_error', 'slow_down'];

/** Request Timeout and Too Many Requests. */
const RETRYABLE_STATUS = [408, 429];

/** An answer without an error code of RFC 6749 §5.2 is not from the issuer, but from a proxy, or an error page. */
export function classifyResponse({ status = 0, body = {} }: IssuerResponse): ResponseClass {
  if (status === 200) return 'ok';
  const { error } = body;
  if (status < 400 || status >= 500 || RETRYABLE_STATUS.includes(status)) return 'unavailable';
  if (typeof error !== 'string' || RETRYABLE.includes(error)) return 'unavailable';
  return TOKEN_INVALID.includes(error) ? 'token-invalid' : 'refused';
}

/** Codes of RFC 6749 §5.2, RFC 7009 §2.2.1 and RFC 8693 §2.2.2. Others are not shown, because they may contain secrets. */
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

/** The error code of the issuer if it is a known one, for error messages. */
export function knownErrorCode({ body }: IssuerResponse): string {
  return KNOWN_ERROR_CODES.find((code) => code === body?.['error']) ?? 'no reason';
}
