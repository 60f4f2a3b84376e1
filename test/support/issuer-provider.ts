import { errors, type GrantContext, Provider } from 'oidc-provider';
import type { KeyPair } from './issuer-keys.ts';
import type { IssuerStorage } from './issuer-storage.ts';
import type { TestUser } from './issuer-users.ts';

const SCOPE = 'openid profile offline_access';
const HOUR = 60 * 60;

export interface ProviderOptions {
  readonly url: string;
  readonly users: readonly TestUser[];
  readonly clients: readonly string[];
  readonly audience: string;
  readonly accessTokenTtl: number;
  readonly accessTokenClaims: readonly string[] | undefined;
  readonly rotateRefreshTokens: boolean;
  readonly storage: IssuerStorage;
  /** The first signs. */
  readonly keys: readonly KeyPair[];
}

/** oidc-provider with JWT access tokens and a log-in without a browser. All is configured that it would warn about. */
export function createProvider(options: ProviderOptions): Provider {
  const { url, users, audience, accessTokenTtl } = options;
  const resource = `urn:${audience}`;
  const resourceServer = { audience, scope: SCOPE, accessTokenTTL: accessTokenTtl, accessTokenFormat: 'jwt' };

  const provider = new Provider(url, {
    adapter: options.storage.adapter,
    jwks: { keys: options.keys.map((pair) => pair.private) },
    clients: options.clients.map((client_id) => ({
      client_id,
      application_type: 'native',
      token_endpoint_auth_method: 'none',
      grant_types: ['password', 'refresh_token', 'authorization_code'],
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
  return provider;
}
