import type { FastifyInstance, FastifyRequest } from 'fastify';
import { DEVICE_CODE_GRANT, type PageGrant, type PageSignIn } from '../../identity/index.ts';
import { readJsonBody } from '../body.ts';
import { HttpError } from '../errors.ts';

export interface PageSignInDeps {
  /** The name of this cluster. */
  readonly cluster: string;
  /** Absent if no issuer is configured, or no client for the page. */
  readonly signIn?: PageSignIn | undefined;
  readonly issuers: readonly string[];
  readonly clientId: string;
  readonly scope: string;
  readonly loginHints: readonly string[];
}

/** A code, its verifier and a redirect URI. */
const BODY_LIMIT = 16 * 1024;

/** How the page learns where to sign in, and how it redeems the code of an issuer. These routes need no credentials. */
export function pageSignInRoutes(app: FastifyInstance, deps: PageSignInDeps): void {
  const schema = { hide: true };
  const { cluster, signIn, clientId, scope, loginHints } = deps;
  const issuers = signIn ? deps.issuers : [];
  const config = {
    cluster,
    issuers: issuers.map((issuer) => ({ issuer, client_id: clientId, scope, login_hints: loginHints })),
  };
  app.get('/ui/config.json', { schema }, (_request, reply) => reply.header('cache-control', 'no-cache').send(config));
  if (!signIn) return;
  app.get('/ui/sign-in', { schema }, async (request) => {
    const issuer = issuerQuery(request);
    const [endpoint, device] = await Promise.all([
      signIn.authorizationEndpoint(issuer),
      signIn.offersDeviceCode(issuer),
    ]);
    return { authorization_endpoint: endpoint, device };
  });
  app.post('/ui/sign-in/device', { schema, bodyLimit: BODY_LIMIT }, async (request, reply) => {
    const issuer = textField(readJsonBody(request), 'issuer');
    return reply.header('cache-control', 'no-store').send(await signIn.startDevice(issuer, scope));
  });
  app.post('/ui/sign-in/token', { schema, bodyLimit: BODY_LIMIT }, async (request, reply) => {
    const { issuer, grant } = readRedemption(readJsonBody(request));
    const answer = await signIn.redeem(issuer, grant);
    return reply
      .code('pending' in answer ? 202 : 200)
      .header('cache-control', 'no-store')
      .send(answer);
  });
}

function issuerQuery(request: FastifyRequest): string {
  const { issuer } = request.query as { issuer?: unknown };
  if (typeof issuer !== 'string') throw new HttpError('bad-request', 'issuer: is required');
  return issuer;
}

function readRedemption(body: unknown): { issuer: string; grant: PageGrant } {
  const read = (name: string) => textField(body, name);
  const issuer = read('issuer');
  const grant_type = read('grant_type');
  if (grant_type === 'refresh_token') return { issuer, grant: { grant_type, refresh_token: read('refresh_token') } };
  if (grant_type === DEVICE_CODE_GRANT) return { issuer, grant: { grant_type, device_code: read('device_code') } };
  if (grant_type !== 'authorization_code') {
    throw new HttpError('bad-request', `grant_type: must be authorization_code, refresh_token or ${DEVICE_CODE_GRANT}`);
  }
  const [code, code_verifier, redirect_uri] = [read('code'), read('code_verifier'), read('redirect_uri')];
  return { issuer, grant: { grant_type, code, code_verifier, redirect_uri } };
}

function textField(body: unknown, name: string): string {
  const fields = typeof body === 'object' && body !== null ? (body as Readonly<Record<string, unknown>>) : {};
  const value = fields[name];
  if (typeof value !== 'string' || value === '') throw new HttpError('bad-request', `${name}: must be a text`);
  return value;
}
