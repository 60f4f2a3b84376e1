/**
 * Sign-in with an authorization code and PKCE (RFC 7636). The manager sends the code to the issuer for us, so that the page
 * talks to no other host.
 */

export interface Tokens {
  readonly issuer: string;
  readonly accessToken: string;
  readonly refreshToken?: string | undefined;
  /** By the clock of this browser. */
  readonly expiresAt: number;
}

/** The issuer does not accept the code or the refresh token. */
export class SignInRefused extends Error {}

export interface PageIssuer {
  readonly issuer: string;
  readonly client_id: string;
  readonly scope: string;
  /** Users that the page offers to sign in as: for demonstrations. */
  readonly login_hints: readonly string[];
}

export interface PageConfig {
  readonly cluster: string;
  readonly issuers: readonly PageIssuer[];
}

export async function readPageConfig(): Promise<PageConfig> {
  const response = await fetch('/ui/config.json', { credentials: 'omit' });
  if (!response.ok) throw new Error(await readProblem(response));
  return (await response.json()) as PageConfig;
}

/** What must survive the visit at the issuer. It contains no token. */
interface PendingSignIn {
  readonly issuer: string;
  readonly state: string;
  readonly verifier: string;
  readonly returnTo: string;
}

const PENDING = 'oscar.sign-in';
const redirectUri = () => `${location.origin}/ui/`;

/** Leaves the page for the issuer. */
export async function startSignIn({ issuer, client_id, scope }: PageIssuer, loginHint?: string): Promise<void> {
  const response = await fetch(`/ui/sign-in?${new URLSearchParams({ issuer })}`, { credentials: 'omit' });
  if (!response.ok) throw new Error(await readProblem(response));
  const { authorization_endpoint } = (await response.json()) as { authorization_endpoint: string };
  const pending: PendingSignIn = {
    issuer,
    state: randomText(),
    verifier: randomText(),
    returnTo: `${location.pathname}${location.search}${location.hash}`,
  };
  sessionStorage.setItem(PENDING, JSON.stringify(pending));
  const url = new URL(authorization_endpoint);
  for (const [name, value] of Object.entries({
    response_type: 'code',
    client_id,
    redirect_uri: redirectUri(),
    scope,
    state: pending.state,
    code_challenge: await challengeFor(pending.verifier),
    code_challenge_method: 'S256',
    // Otherwise the issuer would sign in the user of its present session.
    ...(loginHint !== undefined && { login_hint: loginHint, prompt: 'login' }),
  })) {
    url.searchParams.set(name, value);
  }
  location.assign(url);
}

/** Called when the page loads: redeems the code if the issuer has sent the user back with one. */
export async function finishSignIn(): Promise<Tokens | undefined> {
  const answer = new URLSearchParams(location.search);
  const [code, state, error] = ['code', 'state', 'error'].map((name) => answer.get(name));
  if (state === null || (code === null && error === null)) return undefined;
  const pending = readPending();
  sessionStorage.removeItem(PENDING);
  history.replaceState(null, '', pending?.returnTo ?? '/ui/');
  // Another page may have sent the user here with a code of its own (RFC 6749 §10.12).
  if (!pending || pending.state !== state) throw new Error('this sign-in was not started here: try again');
  if (code == null) throw new Error(answer.get('error_description') ?? error ?? 'the issuer refused the sign-in');
  return redeem(pending.issuer, {
    grant_type: 'authorization_code',
    code,
    code_verifier: pending.verifier,
    redirect_uri: redirectUri(),
  });
}

export async function refresh({ issuer, refreshToken = '' }: Tokens): Promise<Tokens> {
  const renewed = await redeem(issuer, { grant_type: 'refresh_token', refresh_token: refreshToken });
  return { ...renewed, refreshToken: renewed.refreshToken ?? refreshToken };
}

async function redeem(issuer: string, fields: Readonly<Record<string, string>>): Promise<Tokens> {
  const response = await fetch('/ui/sign-in/token', {
    method: 'POST',
    credentials: 'omit',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ issuer, ...fields }),
  });
  if (response.status === 401) throw new SignInRefused(await readProblem(response));
  if (!response.ok) throw new Error(await readProblem(response));
  const given = (await response.json()) as { access_token: string; refresh_token?: string; expires_in?: number };
  return {
    issuer,
    accessToken: given.access_token,
    refreshToken: given.refresh_token,
    expiresAt: Date.now() + (given.expires_in ?? 300) * 1000,
  };
}

function readPending(): PendingSignIn | undefined {
  const text = sessionStorage.getItem(PENDING);
  return text === null ? undefined : (JSON.parse(text) as PendingSignIn);
}

const readProblem = async (response: Response) => (await response.text()).trim() || response.statusText;

const randomText = () => toBase64Url(crypto.getRandomValues(new Uint8Array(32)));

/**
 * The code challenge of a verifier. `crypto.subtle` exists only in secure contexts (HTTPS and loopback); elsewhere a token in a
 * browser would not be safe either.
 */
async function challengeFor(verifier: string): Promise<string> {
  if (!globalThis.isSecureContext) {
    throw new Error('sign-in with an issuer needs HTTPS: open this page with https://, or on 127.0.0.1');
  }
  return toBase64Url(new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier))));
}

const toBase64Url = (bytes: Uint8Array) =>
  btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replace(/=+$/, '');
