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
  | { readonly grant_type: 'refresh_token'; readonly refresh_token: string }
  | { readonly grant_type: typeof DEVICE_CODE_GRANT; readonly device_code: string };

/** RFC 8628 §3.4. */
export const DEVICE_CODE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';

/** The user has not answered on the other device yet (RFC 8628 §3.5). */
export interface PendingSignIn {
  readonly pending: 'authorization_pending' | 'slow_down';
}

/** What a user does on another device to sign in (RFC 8628 §3.2). */
export interface DeviceSignIn {
  readonly device_code: string;
  readonly user_code: string;
  readonly verification_uri: string;
  readonly verification_uri_complete?: string;
  readonly expires_in: number;
  readonly interval: number;
}

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

  /** Whether users can sign in on another device. */
  async offersDeviceCode(issuer: string): Promise<boolean> {
    return typeof (await this.#find(issuer)).metadata[DEVICE_ENDPOINT] === 'string';
  }

  async startDevice(issuer: string, scope: string): Promise<DeviceSignIn> {
    const { status, answer } = await this.#send(issuer, DEVICE_ENDPOINT, { scope });
    const { device_code, user_code, verification_uri, verification_uri_complete, expires_in, interval } = answer;
    if (
      status !== 200 ||
      typeof device_code !== 'string' ||
      typeof user_code !== 'string' ||
      !isWebAddress(verification_uri)
    ) {
      throw unavailable(issuer, new Error(`its device authorization endpoint answered with ${status}`));
    }
    return {
      device_code,
      user_code,
      verification_uri,
      ...(isWebAddress(verification_uri_complete) && { verification_uri_complete }),
      expires_in: typeof expires_in === 'number' ? expires_in : DEVICE_EXPIRY_SECONDS,
      interval: typeof interval === 'number' ? interval : DEVICE_INTERVAL_SECONDS,
    };
  }

  /** Only a device code can be pending. */
  async redeem(issuer: string, grant: PageGrant): Promise<PageTokens | PendingSignIn> {
    const { status, answer } = await this.#send(issuer, 'token_endpoint', grant);
    if (status === 400 || status === 401) {
      const { error, error_description } = answer;
      const isDevice = grant.grant_type === DEVICE_CODE_GRANT;
      if (isDevice && (error === 'authorization_pending' || error === 'slow_down')) return { pending: error };
      const reason = [error_description, error].find((each) => typeof each === 'string');
      throw new IdentityError('bad-token', `${issuer} refused the sign-in: ${reason ?? 'it gave no reason'}`);
    }
    const token = answer['access_token'];
    if (status !== 200 || typeof token !== 'string') {
      throw unavailable(issuer, new Error(`its token endpoint answered with ${status}`));
    }
    const { refresh_token, expires_in } = answer;
    return {
      access_token: token,
      ...(typeof refresh_token === 'string' && { refresh_token }),
      ...(typeof expires_in === 'number' && { expires_in }),
    };
  }

  async #send(issuer: string, name: string, fields: Readonly<Record<string, string>>) {
    const endpoint = (await this.#find(issuer)).metadata[name];
    if (typeof endpoint !== 'string') throw unavailable(issuer, new Error(`its metadata has no ${name}`));
    const response = await boundedRequest(endpoint, {
      method: 'POST',
      headers: { accept: 'application/json' },
      body: new URLSearchParams({ ...fields, client_id: this.#clientId }),
    }).catch((error: unknown) => Promise.reject(unavailable(issuer, error)));
    const answer = (await response.json().catch(() => undefined)) as Readonly<Record<string, unknown>> | undefined;
    return { status: response.status, answer: answer ?? {} };
  }

  async #find(issuer: string) {
    const connect = this.#issuers.get(issuer);
    if (!connect) throw new IdentityError('bad-token', `${issuer} is not an issuer of this cluster`);
    return connect();
  }
}

const DEVICE_ENDPOINT = 'device_authorization_endpoint';

/** If the issuer does not say how long a code lives, and how often it may be asked (RFC 8628 §3.2). */
const DEVICE_EXPIRY_SECONDS = 600;
const DEVICE_INTERVAL_SECONDS = 5;

/** The page shows the address as a link, so it must not be `javascript:`. */
const isWebAddress = (value: unknown): value is string =>
  typeof value === 'string' && /^https?:$/.test(URL.parse(value)?.protocol ?? '');

const unavailable = (issuer: string, cause: unknown) =>
  new IdentityError('issuer-unavailable', `could not sign in because ${issuer} does not answer correctly`, { cause });
