import type * as OpenId from 'openid-client';
import { Secret } from '../../lib/secret.ts';
import { ClientError } from './errors.ts';
import { printable } from './table.ts';
import type { Terminal } from './terminal.ts';

/** The tokens of an issuer's answer. */
export interface Tokens {
  readonly accessToken: Secret;
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
  readonly refreshToken?: Secret;
}

/** Where the user approves the device flow, and the code to approve. */
export interface DeviceCode {
  readonly address: string;
  readonly code: string;
}

const SCOPE = 'openid profile offline_access';

/** An extension of the issuer of `oscar up`: creates a second grant without a browser. Other issuers do not have it. */
export const OWN_GRANT_TYPE = 'urn:oscar:grant-type:own-grant';

/** A client of an OpenID Connect issuer for the command line. */
export class IssuerClient {
  readonly url: string;
  readonly clientId: string;
  readonly #openid: typeof OpenId;
  readonly #configuration: OpenId.Configuration;

  constructor(url: string, clientId: string, openid: typeof OpenId, configuration: OpenId.Configuration) {
    this.url = url;
    this.clientId = clientId;
    this.#openid = openid;
    this.#configuration = configuration;
  }

  static async discover(url: string, clientId: string): Promise<IssuerClient> {
    // openid-client is slow to load, and most commands do not need it.
    const openid = await import('openid-client');
    const address = URL.parse(url);
    if (!address) throw new ClientError('bad-input', `"${url}" is not the URL of an issuer`);
    const plain = address.protocol === 'http:';
    if (plain && !isLoopback(address.hostname)) {
      throw new ClientError(
        'bad-input',
        `${url} is not https, so your password and tokens could be read on the network`,
      );
    }
    const execute = plain ? [openid.allowInsecureRequests] : [];
    const configuration = await callIssuer(url, openid, () =>
      openid.discovery(address, clientId, undefined, openid.None(), { execute }),
    );
    return new IssuerClient(url, clientId, openid, configuration);
  }

  offers(grantType: string): boolean {
    return this.#configuration.serverMetadata().grant_types_supported?.includes(grantType) ?? false;
  }

  async withPassword(username: string, password: Secret): Promise<Tokens> {
    if (!this.offers('password')) {
      throw new ClientError(
        'bad-input',
        `${this.url} does not allow logins with a password: use \`oscar login\` without --password`,
      );
    }
    try {
      return await this.#grant('password', { username, password: password.reveal(), scope: SCOPE });
    } catch (error) {
      if (!(error instanceof ClientError) || error.code !== 'login-needed') throw error;
      throw new ClientError('login-needed', `${this.url} rejected the user name or password`, {
        cause: error,
      });
    }
  }

  /** The device flow: the user approves the login in a browser, on this machine or another. */
  async withDevice(show: (code: DeviceCode) => void): Promise<Tokens> {
    const openid = this.#openid;
    if (!this.#configuration.serverMetadata().device_authorization_endpoint) {
      throw new ClientError(
        'bad-input',
        `${this.url} does not support the device flow, which this program uses to log in`,
      );
    }
    const answer = await callIssuer(this.url, openid, async () => {
      const device = await openid.initiateDeviceAuthorization(this.#configuration, { scope: SCOPE });
      show({ address: device.verification_uri_complete ?? device.verification_uri, code: device.user_code });
      return openid.pollDeviceAuthorizationGrant(this.#configuration, device);
    });
    return toTokens(answer);
  }

  async refresh(refreshToken: Secret): Promise<Tokens> {
    const openid = this.#openid;
    return toTokens(
      await callIssuer(this.url, openid, () => openid.refreshTokenGrant(this.#configuration, refreshToken.reveal())),
    );
  }

  /** Creates a second grant, independent of the login's. Only if the issuer {@link offers} it. */
  async ownGrant(accessToken: Secret): Promise<Tokens> {
    return this.#grant(OWN_GRANT_TYPE, { access_token: accessToken.reveal(), scope: SCOPE });
  }

  async revoke(refreshToken: Secret): Promise<void> {
    const openid = this.#openid;
    await callIssuer(this.url, openid, () => openid.tokenRevocation(this.#configuration, refreshToken.reveal()));
  }

  async #grant(type: string, parameters: Record<string, string>): Promise<Tokens> {
    const openid = this.#openid;
    return toTokens(
      await callIssuer(this.url, openid, () => openid.genericGrantRequest(this.#configuration, type, parameters)),
    );
  }
}

function toTokens({ access_token, refresh_token, expires_in }: OpenId.TokenEndpointResponse): Tokens {
  return {
    accessToken: new Secret(access_token),
    // Without a lifetime in the answer, renew soon.
    expiresAt: Date.now() + (expires_in ?? 60) * 1000,
    ...(refresh_token !== undefined && { refreshToken: new Secret(refresh_token) }),
  };
}

async function callIssuer<T>(url: string, openid: typeof OpenId, how: () => Promise<T>): Promise<T> {
  try {
    return await how();
  } catch (error) {
    if (error instanceof openid.ResponseBodyError) {
      const why = error.error_description ?? error.error;
      const code = error.error === 'invalid_grant' ? 'login-needed' : 'failed';
      throw new ClientError(code, `the issuer ${url} rejected the request: ${why}`, { cause: error });
    }
    const { toHttpClientError } = await import('../../lib/http/index.ts');
    const failure = toHttpClientError(error, new URL(url).host);
    if (failure || isCut(error)) {
      const why = failure?.message ?? 'the connection was cut';
      throw new ClientError('unreachable', `the issuer ${url}: ${why}. Try again`, { cause: error });
    }
    if (error instanceof openid.ClientError) {
      throw new ClientError('failed', `${url} does not answer like an OpenID Connect issuer: ${error.message}`, {
        cause: error,
      });
    }
    throw error;
  }
}

/** The error of `fetch` for a connection that was closed. */
const isCut = (error: unknown) => error instanceof TypeError && error.message === 'fetch failed';

const isLoopback = (host: string) => host === 'localhost' || host === '[::1]' || /^127(\.\d+){3}$/.test(host);

/** Asks the user to approve a device code, while the program waits for the approval. */
export function showDeviceCode({ address, code }: DeviceCode, terminal: Terminal): void {
  terminal.ask(`Open ${printable(address)} in a browser and approve the code ${printable(code)} …`);
}
