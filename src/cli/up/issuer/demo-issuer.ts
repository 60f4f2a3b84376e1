import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { exportJWK, generateKeyPair, type JWK } from 'jose';
import { claimsFor, PEOPLE } from './people.ts';
import { approveDevice, createProvider, findBearer, finishInteraction } from './provider.ts';
import { IssuerRecords } from './records.ts';

export interface DemoIssuer {
  readonly url: string;
  stop(): Promise<void>;
}

/** A sign-in ends with a redirect to the page of a cluster, which `form-action` must allow. */
const PAGES = 'http://127.0.0.1:* http://localhost:*';

const ALGORITHM = 'RS256';

/** Larger than any form of this issuer. */
const LONGEST_FORM = 4096;

/** Starts an OpenID Connect issuer on loopback for the users of `oscar up`. Its state is in the given file. */
export async function startDemoIssuer(port: number, file: string): Promise<DemoIssuer> {
  const url = `http://127.0.0.1:${port}`;
  const records = await IssuerRecords.open(file, newKey);
  const provider = createProvider(url, records);
  const answer = provider.callback();

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '/', url);
    if (pathname === '/me') return answerUserinfo(request, response);
    const isSignIn = pathname.startsWith('/interaction/');
    if (pathname !== '/device' && !isSignIn) return answer(request, response);
    if (request.method !== 'POST' && isSignIn) {
      if (!(await finishInteraction(request, response, provider))) page(response, signInPage());
      return;
    }
    if (request.method !== 'POST') return page(response, devicePage(searchParams.get('user_code') ?? ''));
    // Protects against approval by another web page (CSRF).
    const { origin } = request.headers;
    if (origin !== url)
      return page(response, devicePage('', 'This form must be sent from the page of this issuer.'), 403);
    const form = new URLSearchParams(await readForm(request));
    const person = PEOPLE.find(({ login }) => login === form.get('as'));
    if (isSignIn) return void (person && (await finishInteraction(request, response, provider, person)));
    const done = person && (await approveDevice(form.get('user_code') ?? '', person, provider));
    if (done) page(response, devicePage('', `You are logged in as ${person.name}. Go back to your terminal.`));
    else page(response, devicePage('', 'This code is unknown, already used or expired. Start again.'), 400);
  }

  /** oidc-provider's own endpoint rejects tokens with an audience; those of EGI and Keycloak accept them. */
  async function answerUserinfo(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const token = request.headers.authorization?.replace(/^Bearer /, '') ?? '';
    const person = await findBearer(token, url, records.key);
    if (!person) return void response.writeHead(401, { 'www-authenticate': 'Bearer error="invalid_token"' }).end();
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(claimsFor(person)));
  }

  const server = createServer((request, response) => {
    // After a restart, a client's pooled connection would fail its first request.
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
    'content-security-policy': `default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; form-action 'self' ${PAGES}`,
    'cache-control': 'no-store',
  });
  response.end(html);
}

async function readForm(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request) {
    text += String(chunk);
    if (text.length > LONGEST_FORM) throw new Error('the form is too long');
  }
  return text;
}

/** The page on which a user approves a device code. It has no script and loads nothing. */
function devicePage(code: string, message = ''): string {
  if (message !== '') return pageText(`<p>${escaped(message)}</p>`);
  return pageText(`<form method="post"><p>Code <input name="user_code" value="${escaped(code)}" autocomplete="off" required></p>
<p>If your terminal shows the same code, choose a user:</p><p>${buttons('Approve as')}</p></form>`);
}

/** The page on which a user signs in at the page of a cluster. */
const signInPage = () =>
  pageText(`<form method="post"><p>Choose a user of the demo:</p><p>${buttons('Sign in as')}</p></form>`);

const buttons = (verb: string) =>
  PEOPLE.map(({ login, name }) => `<button name="as" value="${login}">${verb} ${name}</button>`).join(' ');

const pageText = (body: string) => `<!doctype html><html lang="en"><meta charset="utf-8"><title>Log in to OSCAR</title>
<style>body{font:1.1rem system-ui;max-width:34rem;margin:15vh auto;padding:0 1rem}input{font:inherit;width:9em}button{font:inherit;padding:.4em 1em}</style>
<h1>Log in to OSCAR</h1>${body}</html>
`;

const escaped = (text: string) => text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
