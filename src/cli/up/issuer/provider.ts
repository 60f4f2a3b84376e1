import type { IncomingMessage, ServerResponse } from 'node:http';
import { createLocalJWKSet, type JWK, jwtVerify } from 'jose';
import { errors, type GrantContext, Provider } from 'oidc-provider';
import { OWN_GRANT_TYPE } from '../../client/issuer.ts';
import { claimsFor, findPerson, PEOPLE, type Person } from './people.ts';
import type { IssuerRecords } from './records.ts';

/** The public client that users and managers use. */
export const CLIENT_ID = 'oscar';

const SCOPE = 'openid profile offline_access';
/** The audience of access tokens. */
export const AUDIENCE = 'oscar';
const RESOURCE = `urn:${AUDIENCE}`;
const HOUR = 60 * 60;
const DAY = 24 * HOUR;
const ACCESS_TOKEN_TTL = HOUR;
const RESOURCE_SERVER = {
  audience: AUDIENCE,
  scope: SCOPE,
  accessTokenTTL: ACCESS_TOKEN_TTL,
  accessTokenFormat: 'jwt',
};

/** The issuer of `oscar up`. Its refresh tokens rotate, as in production. Sets every option whose default causes a warning. */
export function createProvider(url: string, records: IssuerRecords): Provider {
  const provider = new Provider(url, {
    adapter: records.adapter,
    jwks: { keys: [records.key] },
    clients: [
      {
        client_id: CLIENT_ID,
        application_type: 'native',
        token_endpoint_auth_method: 'none',
        grant_types: ['authorization_code', 'password', OWN_GRANT_TYPE, DEVICE_GRANT_TYPE, 'refresh_token'],
        response_types: ['code'],
        // The page of each cluster: the port of a loopback address may be any (RFC 8252 §7.3).
        redirect_uris: ['http://127.0.0.1/ui/', 'http://localhost/ui/'],
      },
    ],
    cookies: { keys: [records.key.d ?? url] },
    scopes: SCOPE.split(' '),
    claims: { openid: ['sub'], profile: ['name', 'group_membership'] },
    findAccount: (_ctx: unknown, sub: string) => {
      const person = findPerson(sub);
      return person && { accountId: sub, claims: () => claimsFor(person) };
    },
    extraTokenClaims: (_ctx: unknown, { accountId }: { accountId: string }) => {
      const { sub: _, ...claims } = claimsFor(findPerson(accountId) ?? { sub: '', login: '', name: '' });
      return claims;
    },
    interactions: { url: (_ctx: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
    pkce: { required: () => true },
    issueRefreshToken: () => true,
    rotateRefreshToken: true,
    ttl: {
      AccessToken: ACCESS_TOKEN_TTL,
      DeviceCode: 10 * 60,
      IdToken: HOUR,
      Interaction: HOUR,
      Grant: 30 * DAY,
      RefreshToken: 30 * DAY,
      Session: DAY,
    },
    features: {
      devInteractions: { enabled: false },
      deviceFlow: { enabled: true },
      revocation: { enabled: true, allowedPolicy: () => true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => RESOURCE,
        useGrantedResource: () => true,
        getResourceServerInfo: () => RESOURCE_SERVER,
      },
    },
  });

  // The default polling interval of clients is five seconds, too long for a user at a terminal.
  provider.use(async (ctx, next) => {
    await next();
    if (typeof ctx.body === 'object' && ctx.body && 'device_code' in ctx.body) ctx.body = { ...ctx.body, interval: 1 };
  });

  const withPassword = async (ctx: GrantContext) => {
    const { username, password } = ctx.oidc.params;
    const person = PEOPLE.find(({ login }) => login === username);
    if (!person || password !== person.login) throw new errors.InvalidGrant('wrong user name or password');
    ctx.body = await tokensFor(person, ctx, provider);
  };
  provider.registerGrantType('password', withPassword, ['username', 'password', 'scope']);

  /** Creates a second grant for a service, for the owner of an access token. */
  const ownGrant = async (ctx: GrantContext) => {
    const person = await findBearer(ctx.oidc.params['access_token'] ?? '', url, records.key);
    if (!person) throw new errors.InvalidGrant('the access token is invalid or expired');
    ctx.body = await tokensFor(person, ctx, provider);
  };
  provider.registerGrantType(OWN_GRANT_TYPE, ownGrant, ['access_token', 'scope']);
  return provider;
}

const DEVICE_GRANT_TYPE = 'urn:ietf:params:oauth:grant-type:device_code';

/** Approves the device with this code for a person. Returns false if the code is unknown. */
export async function approveDevice(userCode: string, person: Person, provider: Provider): Promise<boolean> {
  const code = await provider.DeviceCode.findByUserCode(userCode.toUpperCase().replace(/\W/g, ''));
  if (!code || code.accountId !== undefined) return false;
  const grantId = await newGrant(person, code.clientId, provider);
  const authTime = Math.floor(Date.now() / 1000);
  await Object.assign(code, { accountId: person.sub, grantId, authTime, scope: SCOPE, resource: RESOURCE }).save();
  return true;
}

/**
 * Ends the sign-in that a page has started: as the person, or as the one that the page named (`login_hint`). Returns false if
 * there is neither, so that a person must be chosen.
 */
export async function finishInteraction(
  request: IncomingMessage,
  response: ServerResponse,
  provider: Provider,
  chosen?: Person,
): Promise<boolean> {
  const { params } = await provider.interactionDetails(request, response);
  const person = chosen ?? PEOPLE.find(({ login }) => login === params['login_hint']);
  if (!person) return false;
  const grantId = await newGrant(person, CLIENT_ID, provider);
  await provider.interactionFinished(request, response, { login: { accountId: person.sub }, consent: { grantId } });
  return true;
}

async function newGrant({ sub }: Person, clientId: string, provider: Provider): Promise<string> {
  const grant = new provider.Grant({ accountId: sub, clientId });
  grant.addOIDCScope(SCOPE);
  grant.addResourceScope(RESOURCE, SCOPE);
  return grant.save();
}

async function tokensFor(person: Person, { oidc: { client } }: GrantContext, provider: Provider): Promise<object> {
  const grantId = await newGrant(person, client.clientId, provider);
  const common = { accountId: person.sub, client, grantId, gty: 'password', scope: SCOPE };
  const resourceServer = new provider.ResourceServer(RESOURCE, RESOURCE_SERVER);
  const access = new provider.AccessToken({ ...common, resourceServer });
  const refresh = new provider.RefreshToken({ ...common, resource: RESOURCE, rotations: 0 });
  return {
    access_token: await access.save(),
    refresh_token: await refresh.save(),
    expires_in: access.expiration,
    token_type: 'Bearer',
    scope: SCOPE,
  };
}

/** The person that an access token belongs to. */
export async function findBearer(token: string, issuer: string, key: JWK): Promise<Person | undefined> {
  const { kty, n, e, kid, alg } = key;
  const keys = createLocalJWKSet({ keys: [{ kty, n, e, kid, alg } as JWK] });
  try {
    return findPerson((await jwtVerify(token, keys, { issuer, audience: AUDIENCE })).payload.sub);
  } catch {
    return undefined;
  }
}
