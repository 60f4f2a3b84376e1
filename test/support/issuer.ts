import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { createLocalJWKSet, type JWK, type JWTHeaderParameters, jwtVerify, SignJWT } from 'jose';
import { ALGORITHM, type KeyPair, newKeyPair } from './issuer-keys.ts';
import { createProvider } from './issuer-provider.ts';
import { IssuerStorage } from './issuer-storage.ts';
import { ALICE, BOB, CAROL, type TestUser } from './issuer-users.ts';
import { listenAt, listenLastingly } from './lasting-port.ts';

export type Endpoint = 'discovery' | 'jwks' | 'userinfo' | 'token' | 'revocation';

export interface IssuerOptions {
  /** A free port if left out. */
  readonly port?: number;
  /** The path of the issuer: `/realms/egi`. */
  readonly path?: string;
  /** Alice, Bob and Carol if left out. */
  readonly users?: readonly TestUser[];
  /** Public clients, by id; `oscar` if left out. The first is the one that logs in and refreshes. */
  readonly clients?: readonly string[];
  /** `aud` of access tokens. */
  readonly audience?: string;
  /** Seconds. */
  readonly accessTokenTtl?: number;
  /** Claims of the user that are in access tokens; all if left out. Userinfo has all of them in any case. */
  readonly accessTokenClaims?: readonly string[];
  /** Each refresh gives a new refresh token and spends the old one; true if left out. */
  readonly rotateRefreshTokens?: boolean;
  /** JWTs if left out. */
  readonly accessTokenFormat?: 'jwt' | 'opaque';
  /** Makes all clients confidential. */
  readonly clientSecret?: string;
  /** Audiences that access tokens are exchanged for (RFC 8693); not at all if left out. */
  readonly exchangeAudiences?: readonly string[];
}

export interface Tokens {
  readonly accessToken: string;
  readonly refreshToken: string;
  readonly idToken: string;
}

export interface Issuer extends AsyncDisposable {
  /** Its name, as in `iss`. */
  readonly url: string;
  /** Requests that each endpoint has received so far. */
  readonly requests: Readonly<Record<Endpoint, number>>;
  /** Logs in without a browser. */
  tokensFor(user: TestUser): Promise<Tokens>;
  refresh(refreshToken: string): Promise<Tokens>;
  /** A token of any claims, and any header, with this issuer's real signature: for what oidc-provider never signs. */
  sign(claims: Record<string, unknown>, header?: JWTHeaderParameters): Promise<string>;
  /** The public half of the key that signs now. */
  publicKey(): JWK;
  /** Signs with a new key from now on. The old one is no longer published, unless `keepOld`. */
  rotateKeys(options?: { keepOld?: boolean }): Promise<void>;
  /** Overrides the answer of an endpoint until the returned function is called. */
  answerInstead(endpoint: Endpoint, listener: RequestListener): () => void;
  /** Delays every answer by this many milliseconds; 0 turns it off. */
  slowDown(ms: number): void;
  /** Stops listening. */
  stop(): Promise<void>;
  /** Listens again at the same address, with its records. */
  start(): Promise<void>;
}

const ENDPOINTS: Readonly<Record<string, Endpoint>> = {
  '/.well-known/openid-configuration': 'discovery',
  '/jwks': 'jwks',
  '/me': 'userinfo',
  '/token': 'token',
  '/token/revocation': 'revocation',
};

/**
 * A real OpenID provider on loopback, over plain HTTP.
 *
 * @example
 * await using issuer = await startIssuer({ accessTokenClaims: ['name'] });
 * const { accessToken } = await issuer.tokensFor(ALICE);
 */
export async function startIssuer(options: IssuerOptions = {}): Promise<Issuer> {
  const { path = '', users = [ALICE, BOB, CAROL], clients = ['oscar'], audience = 'oscar' } = options;
  const requests = { discovery: 0, jwks: 0, userinfo: 0, token: 0, revocation: 0 };
  const replaced = new Map<Endpoint, RequestListener>();
  const storage = new IssuerStorage();
  let delay = 0;

  const server = createServer((request, response) => void handle(request, response));
  if (options.port !== undefined) await listenAt(server, options.port);
  const port = options.port ?? (await listenLastingly(server));
  const url = `http://127.0.0.1:${port}${path}`;

  let signing = await newKeyPair();
  let published: KeyPair[] = [signing];
  let answer = provide();

  function provide() {
    const { accessTokenTtl = 3600, accessTokenClaims, accessTokenFormat = 'jwt', rotateRefreshTokens = true } = options;
    const { clientSecret, exchangeAudiences } = options;
    const access = { audience, accessTokenTtl, accessTokenClaims, accessTokenFormat, exchangeAudiences };
    const tokens = { ...access, rotateRefreshTokens, clientSecret };
    return createProvider({ url, users, clients, ...tokens, storage, keys: published }).callback();
  }

  async function handle(request: IncomingMessage & { originalUrl?: string }, response: ServerResponse): Promise<void> {
    // A pooled connection would outlive `stop` in its client, and fail its first request after `start`.
    response.setHeader('connection', 'close');
    const local = request.url?.startsWith(path) ? request.url.slice(path.length) : '';
    const endpoint = ENDPOINTS[local];
    if (endpoint) requests[endpoint] += 1;
    if (delay > 0) await pause(delay);

    const other = endpoint && replaced.get(endpoint);
    if (other) return other(request, response);
    if (endpoint === 'userinfo') return answerUserinfo(request, response);
    // This is how oidc-provider learns of the path it is mounted at.
    if (path) [request.originalUrl, request.url] = [request.url ?? '', local];
    return answer(request, response);
  }

  /** The userinfo endpoint of oidc-provider rejects tokens with an audience; those of EGI and Keycloak accept them. */
  async function answerUserinfo(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const token = request.headers.authorization?.replace('Bearer ', '') ?? '';
    const keys = createLocalJWKSet({ keys: published.map((pair) => pair.public) });
    try {
      const { payload } = await jwtVerify(token, keys, { issuer: url });
      const user = users.find((candidate) => candidate.sub === payload.sub);
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ sub: payload.sub, ...user?.claims }));
    } catch {
      response.writeHead(401, { 'www-authenticate': 'Bearer error="invalid_token"' }).end();
    }
  }

  async function askForTokens(parameters: Record<string, string>): Promise<Tokens> {
    const [id = ''] = clients;
    const secret = options.clientSecret;
    const body = new URLSearchParams({ ...(secret === undefined && { client_id: id }), ...parameters });
    const headers =
      secret === undefined
        ? {}
        : { authorization: `Basic ${btoa(`${encodeURIComponent(id)}:${encodeURIComponent(secret)}`)}` };
    const answered: unknown = await (await fetch(`${url}/token`, { method: 'POST', headers, body })).json();
    if (!areTokens(answered)) throw new Error(`the issuer gave no tokens: ${JSON.stringify(answered)}`);
    return { accessToken: answered.access_token, refreshToken: answered.refresh_token, idToken: answered.id_token };
  }

  async function stop(): Promise<void> {
    if (!server.listening) return;
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  }

  return {
    url,
    requests,
    tokensFor: ({ login }) => askForTokens({ grant_type: 'password', username: login, password: login }),
    refresh: (refresh_token) => askForTokens({ grant_type: 'refresh_token', refresh_token }),
    sign: (claims, header = { alg: ALGORITHM, kid: signing.kid }) =>
      new SignJWT({ iss: url, aud: audience, scope: 'openid', ...claims })
        .setProtectedHeader(header)
        .sign(signing.private),
    publicKey: () => signing.public,
    async rotateKeys({ keepOld = false } = {}) {
      signing = await newKeyPair();
      published = [signing, ...(keepOld ? published : [])];
      answer = provide();
    },
    answerInstead(endpoint, listener) {
      replaced.set(endpoint, listener);
      return () => replaced.delete(endpoint);
    },
    slowDown(ms) {
      delay = ms;
    },
    stop,
    start: () => listenAt(server, port),
    [Symbol.asyncDispose]: stop,
  };
}

function areTokens(value: unknown): value is { access_token: string; refresh_token: string; id_token: string } {
  const names = ['access_token', 'refresh_token', 'id_token'];
  return typeof value === 'object' && value !== null && names.every((name) => name in value);
}
