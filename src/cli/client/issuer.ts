import type * as OpenId from 'openid-client';
import { Secret } from '../../lib/secret.ts';
import { ClientError } from './errors.ts';

/** What an issuer gave. */
export interface Tokens {
  readonly accessToken: Secret;
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
  readonly refreshToken?: Secret;
}

/** Where somebody has to go to say yes. */
export interface Invitation {
  readonly address: string;
  readonly code: string;
}

const SCOPE = 'openid profile offline_access';

/** What the issuer of `oscar up` has for a grant of its own without a browser; others do not know it. */
export const OWN_GRANT_TYPE = 'urn:oscar:grant-type:own-grant';

/** A client of an OpenID Connect issuer, as the command line needs it. */
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
    // Most commands need no issuer, and it takes a while to load.
    const openid = await import('openid-client');
    const address = URL.parse(url);
    if (!address) throw new ClientError('bad-input', `"${url}" is not the URL of an issuer`);
    const plain = address.protocol === 'http:';
    if (plain && !isLoopback(address.hostname)) {
      throw new ClientError(
        'bad-input',
        `${url} is not https: whoever is on the way would see your password and tokens`,
      );
    }
    const execute = plain ? [openid.allowInsecureRequests] : [];
    const configuration = await talk(url, openid, () =>
      openid.discovery(address, clientId, undefined, openid.None(), { execute }),
    );
    return new IssuerClient(url, clientId, openid, configuration);
  }

  offers(grantType: string): boolean {
    return this.#configuration.serverMetadata().grant_types_supported?.includes(grantType) ?? false;
  }

  async withPassword(username: string, password: Secret): Promise<Tokens> {
    if (!this.offers('password')) {
      throw new ClientError('bad-input', `${this.url} takes no passwords here: use \`oscar login\` without --password`);
    }
    try {
      return await this.#grant('password', { username, password: password.reveal(), scope: SCOPE });
    } catch (error) {
      if (!(error instanceof ClientError) || error.code !== 'login-needed') throw error;
      throw new ClientError('login-needed', `${this.url} does not know this user name with this password`, {
        cause: error,
      });
    }
  }

  /** Somebody says yes in a browser, on this machine or another. */
  async withDevice(invite: (invitation: Invitation) => void): Promise<Tokens> {
    const openid = this.#openid;
    if (!this.#configuration.serverMetadata().device_authorization_endpoint) {
      throw new ClientError('bad-input', `${this.url} has no device flow, which is how this program logs in`);
    }
    const answer = await talk(this.url, openid, async () => {
      const device = await openid.initiateDeviceAuthorization(this.#configuration, { scope: SCOPE });
      invite({ address: device.verification_uri_complete ?? device.verification_uri, code: device.user_code });
      return openid.pollDeviceAuthorizationGrant(this.#configuration, device);
    });
    return tokensOf(answer);
  }

  async refresh(refreshToken: Secret): Promise<Tokens> {
    const openid = this.#openid;
    return tokensOf(
      await talk(this.url, openid, () => openid.refreshTokenGrant(this.#configuration, refreshToken.reveal())),
    );
  }

  /** A grant beside the login, which neither renews nor revokes it. Only where the issuer {@link offers} it. */
  async ownGrant(accessToken: Secret): Promise<Tokens> {
    return this.#grant(OWN_GRANT_TYPE, { access_token: accessToken.reveal(), scope: SCOPE });
  }

  async revoke(refreshToken: Secret): Promise<void> {
    const openid = this.#openid;
    await talk(this.url, openid, () => openid.tokenRevocation(this.#configuration, refreshToken.reveal()));
  }

  async #grant(type: string, parameters: Record<string, string>): Promise<Tokens> {
    const openid = this.#openid;
    return tokensOf(
      await talk(this.url, openid, () => openid.genericGrantRequest(this.#configuration, type, parameters)),
    );
  }
}

function tokensOf({ access_token, refresh_token, expires_in }: OpenId.TokenEndpointResponse): Tokens {
  return {
    accessToken: new Secret(access_token),
    // Those that do not say are asked again soon.
    expiresAt: Date.now() + (expires_in ?? 60) * 1000,
    ...(refresh_token !== undefined && { refreshToken: new Secret(refresh_token) }),
  };
}

async function talk<T>(url: string, openid: typeof OpenId, how: () => Promise<T>): Promise<T> {
  try {
    return await how();
  } catch (error) {
    if (error instanceof openid.ResponseBodyError) {
      const why = error.error_description ?? error.error;
      const code = error.error === 'invalid_grant' ? 'login-needed' : 'failed';
      throw new ClientError(code, `the issuer ${url} refused: ${why}`, { cause: error });
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

/** What `fetch` says when somebody hangs up. */
const isCut = (error: unknown) => error instanceof TypeError && error.message === 'fetch failed';

const isLoopback = (host: string) => host === 'localhost' || host === '[::1]' || /^127(\.\d+){3}$/.test(host);
