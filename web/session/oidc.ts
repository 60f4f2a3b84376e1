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

/** A sign-in on another device (RFC 8628). */
export interface DeviceSignIn {
  readonly device_code: string;
  readonly user_code: string;
  readonly verification_uri: string;
  readonly verification_uri_complete?: string;
  readonly expires_in: number;
  readonly interval: number;
}

/** Whether users of this issuer can sign in on another device. */
export async function offersDeviceCode(issuer: string): Promise<boolean> {
  const response = await fetch(`/ui/sign-in?${new URLSearchParams({ issuer })}`, { credentials: 'omit' });
  return response.ok && ((await response.json()) as { device?: boolean }).device === true;
}

export async function startDeviceSignIn(issuer: string): Promise<DeviceSignIn> {
  const response = await post('/ui/sign-in/device', { issuer });
  if (!response.ok) throw new Error(await readProblem(response));
  return (await response.json()) as DeviceSignIn;
}

/** Waits until the user has answered on the other device. Undefined if it was aborted or the code has expired. */
export async function finishDeviceSignIn(
  issuer: string,
  device: DeviceSignIn,
  signal: AbortSignal,
): Promise<Tokens | undefined> {
  const expiresAt = Date.now() + device.expires_in * 1000;
  let wait = device.interval;
  while (!signal.aborted && Date.now() < expiresAt) {
    await new Promise((resolve) => setTimeout(resolve, wait * 1000));
    if (signal.aborted) return undefined;
    const response = await post('/ui/sign-in/token', {
      issuer,
      grant_type: 'urn:ietf:params:oauth:grant-type:device_code',
      device_code: device.device_code,
    });
    if (response.status !== 202) return signal.aborted ? undefined : readTokens(issuer, response);
    // RFC 8628 §3.5: five seconds more for this and all later requests.
    if (((await response.json()) as { pending: string }).pending === 'slow_down') wait += 5;
  }
  return undefined;
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

const redeem = async (issuer: string, fields: Readonly<Record<string, string>>): Promise<Tokens> =>
  readTokens(issuer, await post('/ui/sign-in/token', { issuer, ...fields }));

const post = (path: string, body: Readonly<Record<string, string>>) =>
  fetch(path, {
    method: 'POST',
    credentials: 'omit',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });

async function readTokens(issuer: string, response: Response): Promise<Tokens> {
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
