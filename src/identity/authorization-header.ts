import { createHash, timingSafeEqual } from 'node:crypto';
import { Secret } from '../lib/secret.ts';

/** The credentials of a request as they were sent. They are not verified yet. */
export type Credentials =
  /** No header, an unknown scheme, or `Bearer` without a token. */
  | { readonly scheme: 'none' }
  | { readonly scheme: 'ambiguous' }
  /** `account` is undefined if the text after `Basic` cannot be decoded. */
  | { readonly scheme: 'basic'; readonly account: BasicAccount | undefined }
  | { readonly scheme: 'bearer'; readonly token: Secret };

/**
 * Parses all values of `Authorization`. Schemes are case-sensitive: `basic` is not `Basic` (docs/go-manager.md#http).
 * RFC 9110 would allow both, but existing clients rely on the answer of the Go manager.
 */
export function readAuthorization(values: readonly string[]): Credentials {
  const [value, ...others] = values;
  if (value === undefined) return { scheme: 'none' };
  if (others.length > 0) return { scheme: 'ambiguous' };
  if (value.startsWith('Basic ')) return readBasic(value.slice('Basic '.length));
  if (value.startsWith('Bearer ')) return readBearer(value.slice('Bearer '.length));
  return { scheme: 'none' };
}

function readBearer(rest: string): Credentials {
  const token = rest.trim();
  return token === '' ? { scheme: 'none' } : { scheme: 'bearer', token: new Secret(token) };
}

/** RFC 7617: base64 of `<user>:<password>`; the user has no colon, the password may have some. */
function readBasic(rest: string): Credentials {
  const text = decode(rest);
  const colon = text?.indexOf(':') ?? -1;
  if (text === undefined || colon < 1 || colon === text.length - 1) return { scheme: 'basic', account: undefined };
  const [username, password] = [text.slice(0, colon), text.slice(colon + 1)];
  return { scheme: 'basic', account: { username, password: new Secret(password) } };
}

/** Strict: Node decodes base64 leniently and replaces bad UTF-8, so that two different headers could be one account. */
function decode(base64: string): string | undefined {
  const bytes = Buffer.from(base64, 'base64');
  if (bytes.toString('base64') !== base64) return undefined;
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

export interface BasicAccount {
  readonly username: string;
  readonly password: Secret;
}

/**
 * Whether the given credentials are those of the account. Both parts are always compared, as hashes of equal length, so
 * that the duration reveals neither which part was wrong nor how long it is (S13).
 *
 * An account without a name or password matches nothing: a manager without a configured password must not be open.
 */
export function isAccount(given: BasicAccount, account: BasicAccount): boolean {
  const sameUser = sameText(given.username, account.username);
  const samePassword = sameText(given.password.reveal(), account.password.reveal());
  const usable = account.username !== '' && account.password.reveal() !== '';
  return [sameUser, samePassword, usable].every(Boolean);
}

function sameText(a: string, b: string): boolean {
  return timingSafeEqual(sha256(a), sha256(b));
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
