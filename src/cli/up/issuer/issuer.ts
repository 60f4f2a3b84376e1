import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { exportJWK, generateKeyPair, type JWK } from 'jose';
import { devicePage } from './device-page.ts';
import { claimsOf, PEOPLE } from './people.ts';
import { approveDevice, bearerOf, createProvider } from './provider.ts';
import { IssuerRecords } from './records.ts';

export interface DemoIssuer {
  readonly url: string;
  stop(): Promise<void>;
}

const ALGORITHM = 'RS256';

/** No page of ours is longer. */
const LONGEST_FORM = 4096;

/** An OpenID Connect issuer on loopback, for the people of `oscar up`. What it remembers is in the given file. */
export async function startDemoIssuer(port: number, file: string): Promise<DemoIssuer> {
  const url = `http://127.0.0.1:${port}`;
  const records = await IssuerRecords.open(file, newKey);
  const provider = createProvider(url, records);
  const answer = provider.callback();

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '/', url);
    if (pathname === '/me') return answerUserinfo(request, response);
    if (pathname !== '/device') return answer(request, response);
    if (request.method !== 'POST') return page(response, devicePage(searchParams.get('user_code') ?? ''));
    // Another page must not say yes for somebody.
    const { origin } = request.headers;
    if (origin !== url) return page(response, devicePage('', 'This must be sent from the page of this issuer.'), 403);
    const form = new URLSearchParams(await bodyOf(request));
    const person = PEOPLE.find(({ login }) => login === form.get('as'));
    const done = person && (await approveDevice(form.get('user_code') ?? '', person, provider));
    if (done) page(response, devicePage('', `You are logged in as ${person.name}. Go back to your terminal.`));
    else page(response, devicePage('', 'There is no such code, or it was used or has expired. Start again.'), 400);
  }

  /** oidc-provider's own refuses tokens that have an audience; those of EGI and Keycloak take them. */
  async function answerUserinfo(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const token = request.headers.authorization?.replace(/^Bearer /, '') ?? '';
    const person = await bearerOf(token, url, records.key);
    if (!person) return void response.writeHead(401, { 'www-authenticate': 'Bearer error="invalid_token"' }).end();
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(claimsOf(person)));
  }

  const server = createServer((request, response) => {
    // A pooled connection would outlive this process in its client, and fail the first request after a restart.
    response.setHeader('connection', 'close');
    handle(request, response).catch(() => {
      if (!response.headersSent) response.writeHead(500);
      response.end();
    });
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    url,
    async stop() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

async function newKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair(ALGORITHM, { extractable: true });
  return { ...(await exportJWK(privateKey)), alg: ALGORITHM, use: 'sig', kid: 'oscar-up' };
}

function page(response: ServerResponse, html: string, status = 200): void {
  response.writeHead(status, {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy':
      "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'",
    'cache-control': 'no-store',
  });
  response.end(html);
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request) {
    text += String(chunk);
    if (text.length > LONGEST_FORM) throw new Error('the form is too long');
  }
  return text;
}
