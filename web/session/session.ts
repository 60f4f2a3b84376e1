import { useSyncExternalStore } from 'react';
import { refresh, SignInRefused, type Tokens } from './oidc.ts';

/**
 * Who is signed in. Credentials are kept in memory only: a reload of the page forgets them, and a script that reads the storage
 * of the browser finds none.
 */
export type Session =
  | { readonly kind: 'none'; readonly expired: boolean }
  | { readonly kind: 'admin'; readonly name: string }
  | { readonly kind: 'user'; readonly name: string; readonly uid: string; readonly issuer: string };

/** What the browser keeps for the user who is signed in: names of interrupted uploads, never credentials. */
export const KEPT_FOR_USER = 'oscar.uploads';

const NOBODY: Session = { kind: 'none', expired: false };

/** Refreshed this long before they expire, so that no request is sent with a token that expires on its way. */
const REFRESH_BEFORE_MS = 30_000;

let session: Session = NOBODY;
let basic = '';
let tokens: Tokens | undefined;
let refreshing: Promise<Tokens> | undefined;
const listeners = new Set<() => void>();

export function useSession(): Session {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => session,
  );
}

/** Signs in if the manager accepts the password. Resolves to the status of its answer; undefined if there was none. */
export async function signInAsAdmin(name: string, password: string): Promise<number | undefined> {
  const header = `Basic ${btoa(String.fromCharCode(...new TextEncoder().encode(`${name}:${password}`)))}`;
  const response = await fetch('/system/info', { headers: { authorization: header }, credentials: 'omit' }).catch(
    () => undefined,
  );
  if (response?.ok) {
    basic = header;
    change({ kind: 'admin', name });
  }
  return response?.status;
}

export function signInAsUser(given: Tokens): void {
  tokens = given;
  const claims = readClaims(given.accessToken);
  change({ kind: 'user', name: claims.name ?? claims.sub, uid: claims.sub, issuer: given.issuer });
}

export function signOut(): void {
  // The names of files whose upload was interrupted are for this user only.
  localStorage.removeItem(KEPT_FOR_USER);
  change(NOBODY);
}

/** The manager rejected the credentials. */
export function sessionExpired(): void {
  if (session.kind !== 'none') change({ kind: 'none', expired: true });
}

/** The value of the Authorization header. Redeems the refresh token if the access token is about to expire. */
export async function authorization(): Promise<string> {
  if (session.kind === 'admin') return basic;
  if (!tokens) throw new Error('nobody is signed in');
  if (tokens.expiresAt - Date.now() > REFRESH_BEFORE_MS || tokens.refreshToken === undefined) {
    return `Bearer ${tokens.accessToken}`;
  }
  refreshing ??= renew(tokens).finally(() => {
    refreshing = undefined;
  });
  return `Bearer ${(await refreshing).accessToken}`;
}

/** If the issuer refuses the refresh token, the session has ended. Other failures, such as an outage, do not end it. */
async function renew(old: Tokens): Promise<Tokens> {
  try {
    const renewed = await refresh(old);
    // Meanwhile the user may have signed out, and another one in.
    if (tokens === old) tokens = renewed;
    return renewed;
  } catch (error) {
    if (error instanceof SignInRefused && tokens === old) sessionExpired();
    throw error;
  }
}

function change(next: Session): void {
  session = next;
  if (next.kind !== 'admin') basic = '';
  if (next.kind !== 'user') {
    tokens = undefined;
    refreshing = undefined;
  }
  for (const listener of listeners) listener();
}

/** The claims of an access token, for display only: the manager verifies it. */
function readClaims(token: string): { readonly sub: string; readonly name?: string } {
  try {
    const [, payload = ''] = token.split('.');
    const bytes = Uint8Array.from(atob(payload.replaceAll('-', '+').replaceAll('_', '/')), (letter) =>
      letter.charCodeAt(0),
    );
    return JSON.parse(new TextDecoder().decode(bytes)) as { sub: string; name?: string };
  } catch {
    // Opaque tokens are allowed: then the name is not known here.
    return { sub: '' };
  }
}
