import { createLocalJWKSet, jwtVerify } from 'jose';
import { errors, type GrantContext, Provider } from 'oidc-provider';
import type { KeyPair } from './issuer-keys.ts';
import type { IssuerStorage } from './issuer-storage.ts';
import type { TestUser } from './issuer-users.ts';

const SCOPE = 'openid profile offline_access';
const HOUR = 60 * 60;
const TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange';

export interface ProviderOptions {
  readonly url: string;
  readonly users: readonly TestUser[];
  readonly clients: readonly string[];
  readonly audience: string;
  readonly accessTokenTtl: number;
  readonly accessTokenClaims: readonly string[] | undefined;
  readonly accessTokenFormat: 'jwt' | 'opaque';
  readonly rotateRefreshTokens: boolean;
  /** Of all clients, which are public without it. */
  readonly clientSecret: string | undefined;
  /** Audiences for which access tokens are exchanged; undefined if token exchange is off. */
  readonly exchangeAudiences: readonly string[] | undefined;
  readonly storage: IssuerStorage;
  /** The first key signs. */
  readonly keys: readonly KeyPair[];
}

/** oidc-provider with access tokens for an audience and a log-in without a browser. All is configured that it would warn about. */
export function createProvider(options: ProviderOptions): Provider {
  const { url, users, audience, accessTokenTtl } = options;
  const resource = `urn:${audience}`;
  const resourceServer = {
    audience,
    scope: SCOPE,
    accessTokenTTL: accessTokenTtl,
    accessTokenFormat: options.accessTokenFormat,
  };

  const provider = new Provider(url, {
    adapter: options.storage.adapter,
    jwks: { keys: options.keys.map((pair) => pair.private) },
    clients: options.clients.map((client_id) => ({
      client_id,
      application_type: 'native',
      ...(options.clientSecret === undefined
        ? { token_endpoint_auth_method: 'none' }
        : { token_endpoint_auth_method: 'client_secret_basic', client_secret: options.clientSecret }),
      grant_types: [
        'password',
        'refresh_token',
        'authorization_code',
        ...(options.exchangeAudiences ? [TOKEN_EXCHANGE] : []),
      ],
      redirect_uris: ['http://127.0.0.1/callback'],
    })),
    cookies: { keys: ['only for tests'] },
    scopes: SCOPE.split(' '),
    claims: { openid: ['sub'], profile: [...new Set(users.flatMap((user) => Object.keys(user.claims)))] },
    findAccount: (_ctx: unknown, sub: string) => {
      const user = users.find((candidate) => candidate.sub === sub);
      return user && { accountId: sub, claims: () => ({ sub, ...user.claims }) };
    },
    extraTokenClaims: (_ctx: unknown, { accountId }: { accountId: string }) => {
      const claims = users.find((candidate) => candidate.sub === accountId)?.claims ?? {};
      const wanted = options.accessTokenClaims ?? Object.keys(claims);
      return Object.fromEntries(Object.entries(claims).filter(([name]) => wanted.includes(name)));
    },
    rotateRefreshToken: options.rotateRefreshTokens,
    ttl: {
      AccessToken: accessTokenTtl,
      IdToken: HOUR,
      Interaction: HOUR,
      Grant: 24 * HOUR,
      RefreshToken: 24 * HOUR,
      Session: 24 * HOUR,
    },
    features: {
      devInteractions: { enabled: false },
      revocation: { enabled: true, allowedPolicy: () => true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => resource,
        useGrantedResource: () => true,
        getResourceServerInfo: () => resourceServer,
      },
    },
  });

  async function logIn(ctx: GrantContext): Promise<void> {
    const { client, params } = ctx.oidc;
    const user = users.find((candidate) => candidate.login === params['username']);
    if (!user || params['password'] !== user.login) throw new errors.InvalidGrant('wrong user name or password');

    const grant = new provider.Grant({ accountId: user.sub, clientId: client.clientId });
    grant.addOIDCScope(SCOPE);
    grant.addResourceScope(resource, SCOPE);
    const common = { accountId: user.sub, client, grantId: await grant.save(), gty: 'password', scope: SCOPE };

    const jwt = new provider.ResourceServer(resource, resourceServer);
    const access = new provider.AccessToken({ ...common, resourceServer: jwt });
    const refresh = new provider.RefreshToken({ ...common, resource, rotations: 0 });
    const id = new provider.IdToken({ sub: user.sub, ...user.claims }, { ctx });
    id.scope = SCOPE;
    ctx.body = {
      access_token: await access.save(),
      refresh_token: await refresh.save(),
      id_token: await id.issue({ use: 'idtoken' }),
      expires_in: access.expiration,
      token_type: 'Bearer',
      scope: SCOPE,
    };
  }
  provider.registerGrantType('password', logIn, ['username', 'password']);

  /** RFC 8693, only the exchange of an access token for one with another audience. */
  async function exchange(ctx: GrantContext): Promise<void> {
    const { client, params } = ctx.oidc;
    const keys = createLocalJWKSet({ keys: options.keys.map((pair) => pair.public) });
    const wanted = params['audience'] ?? '';
    const { payload } = await jwtVerify(params['subject_token'] ?? '', keys, { issuer: url }).catch(() => {
      throw new errors.InvalidGrant('the subject token is not good');
    });
    if (!options.exchangeAudiences?.includes(wanted)) throw new errors.InvalidTarget('no such audience');

    const accountId = payload.sub ?? '';
    const grant = new provider.Grant({ accountId, clientId: client.clientId });
    grant.addResourceScope(`urn:${wanted}`, SCOPE);
    const narrow = new provider.ResourceServer(`urn:${wanted}`, { ...resourceServer, audience: wanted });
    const common = { accountId, client, grantId: await grant.save(), gty: 'exchange', scope: SCOPE };
    const access = new provider.AccessToken({ ...common, resourceServer: narrow });
    ctx.body = {
      access_token: await access.save(),
      issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
      expires_in: access.expiration,
      token_type: 'Bearer',
    };
  }
  const parameters = ['subject_token', 'subject_token_type', 'requested_token_type', 'audience'];
  if (options.exchangeAudiences) provider.registerGrantType(TOKEN_EXCHANGE, exchange, parameters);
  return provider;
}
