import { IdentityError } from '../errors.ts';
import { boundedRequest } from './bounded-fetch.ts';
import { type IssuerOptions, lazyIssuer } from './issuer.ts';

export interface PageSignInOptions extends IssuerOptions {
  readonly issuers: readonly string[];
  /** A public client of all issuers, whose redirect URI is `<manager>/ui/`. */
  readonly clientId: string;
}

/** What the page sends to redeem a code (RFC 6749 §4.1.3, RFC 7636 §4.5), or its refresh token. */
export type PageGrant =
  | {
      readonly grant_type: 'authorization_code';
      readonly code: string;
      readonly code_verifier: string;
      readonly redirect_uri: string;
    }
  | { readonly grant_type: 'refresh_token'; readonly refresh_token: string };

export interface PageTokens {
  readonly access_token: string;
  readonly refresh_token?: string;
  readonly expires_in?: number;
}

/**
 * Lets the page of the manager sign users in without a connection of its own to the issuer: the browser follows redirects to
 * the issuer, and the manager redeems the code. The manager keeps none of the tokens.
 */
export class PageSignIn {
  readonly #issuers: ReadonlyMap<string, ReturnType<typeof lazyIssuer>>;
  readonly #clientId: string;

  constructor({ issuers, clientId, ...options }: PageSignInOptions) {
    this.#issuers = new Map(issuers.map((url) => [url, lazyIssuer(url, options)]));
    this.#clientId = clientId;
  }

  async authorizationEndpoint(issuer: string): Promise<string> {
    return (await this.#find(issuer)).authorizationEndpoint;
  }

  async redeem(issuer: string, grant: PageGrant): Promise<PageTokens> {
    const { metadata } = await this.#find(issuer);
    const endpoint = metadata['token_endpoint'];
    if (typeof endpoint !== 'string') throw unavailable(issuer, new Error('its metadata has no token_endpoint'));
    const response = await boundedRequest(endpoint, {
      method: 'POST',
      headers: { accept: 'application/json' },
      body: new URLSearchParams({ ...grant, client_id: this.#clientId }),
    }).catch((error: unknown) => Promise.reject(unavailable(issuer, error)));
    const answer = (await response.json().catch(() => undefined)) as Readonly<Record<string, unknown>> | undefined;
    if (response.status === 400 || response.status === 401) {
      const reason = [answer?.['error_description'], answer?.['error']].find((each) => typeof each === 'string');
      throw new IdentityError('bad-token', `${issuer} refused the sign-in: ${reason ?? 'it gave no reason'}`);
    }
    const token = answer?.['access_token'];
    if (response.status !== 200 || typeof token !== 'string') {
      throw unavailable(issuer, new Error(`its token endpoint answered with ${response.status}`));
    }
    const { refresh_token, expires_in } = answer ?? {};
    return {
      access_token: token,
      ...(typeof refresh_token === 'string' && { refresh_token }),
      ...(typeof expires_in === 'number' && { expires_in }),
    };
  }

  async #find(issuer: string) {
    const connect = this.#issuers.get(issuer);
    if (!connect) throw new IdentityError('bad-token', `${issuer} is not an issuer of this cluster`);
    return connect();
  }
}

const unavailable = (issuer: string, cause: unknown) =>
  new IdentityError('issuer-unavailable', `could not sign in because ${issuer} does not answer correctly`, { cause });
