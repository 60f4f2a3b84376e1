import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { Secret } from '../lib/secret.ts';
import type { Service } from '../model/service/index.ts';
import { IdentityError } from './errors.ts';
import type { Admin, Principal, ServiceToken, User } from './principal.ts';

/** Verifies access tokens of the configured issuers and returns their users. */
export interface TokenVerifier {
  /** @throws {IdentityError} `bad-token`, `not-in-group` or `issuer-unavailable` */
  verify(token: string): Promise<User>;
}

export interface AuthenticatorOptions {
  readonly admin: BasicAccount;
  /** Absent when OIDC is off: then `/system` accepts Basic credentials only (docs/security.md#who-asks). */
  readonly oidc?: TokenVerifier | undefined;
  readonly throttle?: PasswordThrottle | undefined;
}

/** A route that also accepts the token of one service. */
export interface ServiceRoute {
  /** The service in the path. `undefined` if it does not exist, which gets the same answer as a wrong token (R8). */
  readonly service: (Pick<Service, 'token'> & { readonly definition: { readonly name: string } }) | undefined;
  /** Whether the administrator is accepted; `/job` and `/run` accept bearer tokens only (docs/security.md#who-asks). */
  readonly allowBasic: boolean;
  /**
   * A service token from a query parameter or a cookie, for clients that cannot set headers
   * (docs/go-manager.md#forward-authentication).
   */
  readonly extraToken?: string | undefined;
}

/**
 * Authenticates a request by all values of its `Authorization` header, or throws an {@link IdentityError}. The address is
 * that of the client; absent for requests of this manager to itself.
 */
export interface Authenticator {
  /** For `/system`: the administrator or a user. */
  system(authorization: readonly string[], address?: string): Promise<Admin | User>;
  /** For routes of one service: also the holder of its token. */
  service(authorization: readonly string[], route: ServiceRoute, address?: string): Promise<Principal>;
}

const ADMIN: Admin = Object.freeze({ kind: 'admin' });

export function createAuthenticator(options: AuthenticatorOptions): Authenticator {
  const { admin, oidc, throttle = new PasswordThrottle() } = options;
  const noCredentials = () =>
    new IdentityError(
      'no-credentials',
      oidc
        ? 'authentication required: send Authorization with Basic credentials or a Bearer access token'
        : 'authentication required: send Authorization with Basic credentials, this cluster accepts no access tokens',
    );

  function administrator(account: BasicAccount | undefined, address: string | undefined): Admin {
    if (address !== undefined && throttle.isBlocked(address)) {
      throw new IdentityError('too-many-failures', 'too many wrong passwords from your address: try again in a second');
    }
    if (account && isAccount(account, admin)) return ADMIN;
    if (address !== undefined) throttle.fail(address);
    throw new IdentityError('bad-credentials', 'wrong user name or password');
  }

  function user(token: Secret): Promise<User> {
    if (!oidc) {
      throw new IdentityError('bad-token', 'this cluster accepts no access tokens: use the token of the service');
    }
    return oidc.verify(token.reveal());
  }

  return {
    async system(authorization, address) {
      const credentials = readOne(authorization);
      if (credentials.scheme === 'basic') return administrator(credentials.account, address);
      if (credentials.scheme === 'none' || !oidc) throw noCredentials();
      if (isServiceToken(credentials.token.reveal())) {
        throw new IdentityError('bad-token', 'a service token can only invoke its service: send an access token here');
      }
      return user(credentials.token);
    },

    async service(authorization, { service, allowBasic, extraToken }, address) {
      const credentials = readOne(authorization);
      if (credentials.scheme === 'basic' && allowBasic) return administrator(credentials.account, address);
      if (credentials.scheme === 'bearer') {
        const token = credentials.token.reveal();
        if (isServiceToken(token)) return authenticateServiceToken(token, service);
        if (!oidc && allowBasic) throw noCredentials();
        return user(credentials.token);
      }
      // An application behind the forward-auth may have its own `token` query parameter, which is not meant for us.
      if (credentials.scheme === 'none' && extraToken !== undefined && isServiceToken(extraToken)) {
        return authenticateServiceToken(extraToken, service);
      }
      if (allowBasic) throw noCredentials();
      throw new IdentityError('bearer-required', 'send an access token or the service token as Bearer');
    },
  };
}

function readOne(authorization: readonly string[]): Exclude<Credentials, { scheme: 'ambiguous' }> {
  const credentials = readAuthorization(authorization);
  if (credentials.scheme !== 'ambiguous') return credentials;
  throw new IdentityError('ambiguous-credentials', 'the request has more than one Authorization header: send one');
}

function authenticateServiceToken(token: string, service: ServiceRoute['service']): ServiceToken {
  if (service && matchesServiceToken(token, service))
    return { kind: 'service-token', service: service.definition.name };
  throw new IdentityError(
    'bad-token',
    'the service token does not match this service: read the service definition to get its current token',
  );
}

/** The credentials of a request as they were sent. They are not verified yet. */
type Credentials =
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

/**
 * Whether a bearer token has the form of a service token (docs/go-manager.md#users-and-groups). A JWT never has it,
 * because it contains two dots.
 */
export function isServiceToken(bearer: string): boolean {
  return /^[0-9a-f]{64}$/.test(bearer);
}

/** Whether the bearer token is the token of the service. Compares in constant time (S13). */
export function matchesServiceToken(bearer: string, service: Pick<Service, 'token'>): boolean {
  return isServiceToken(bearer) && service.token.equals(bearer);
}

export function newServiceToken(): Secret {
  return new Secret(randomBytes(32).toString('hex'));
}

/**
 * Wrong passwords that an address may send at once. Fewer: an administrator who mistypes, or a script with an old password,
 * delays others behind the same address. More: more guesses for each address that an attacker has.
 */
const BURST = 20;

/** One more wrong password is allowed after this time. Shorter: more guesses. Longer: the administrator waits longer. */
const REFILL_MS = 1_000;

/** Addresses that are remembered. Fewer: an attacker with many addresses is forgotten sooner. More: memory. */
const CAPACITY = 10_000;

/** The wrong passwords of one address that have not expired yet, at a time. */
interface Failures {
  readonly count: number;
  readonly at: number;
}

/**
 * Slows down the guessing of the administrator's password: a leaky bucket of wrong passwords for each address. An address
 * whose bucket is full is not compared at all, not even with the right password, for about a second. A right password
 * never counts.
 */
export class PasswordThrottle {
  readonly #now: () => number;
  readonly #failures = new Map<string, Failures>();

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  isBlocked(address: string): boolean {
    return this.#count(networkOf(address)) > BURST - 1;
  }

  /** Called with each wrong password. */
  fail(address: string): void {
    const network = networkOf(address);
    const count = this.#count(network) + 1;
    // The address that failed last is forgotten last.
    this.#failures.delete(network);
    this.#failures.set(network, { count, at: this.#now() });
    if (this.#failures.size <= CAPACITY) return;
    const [oldest] = this.#failures.keys();
    if (oldest !== undefined) this.#failures.delete(oldest);
  }

  #count(network: string): number {
    const { count, at } = this.#failures.get(network) ?? { count: 0, at: 0 };
    return Math.max(0, count - Math.max(0, this.#now() - at) / REFILL_MS);
  }
}

/**
 * An IPv4 address; of an IPv6 address the first 64 bits, because its holder has the whole network.
 *
 * @example
 * networkOf('2001:db8::1'); // '2001:db8:0:0'
 */
export function networkOf(address: string): string {
  const mapped = /^::ffff:(\d+(?:\.\d+){3})$/i.exec(address)?.[1];
  if (mapped !== undefined || !address.includes(':')) return mapped ?? address;
  const [head = '', tail] = address.toLowerCase().split('%', 1)[0]?.split('::') ?? [];
  const groups = (text: string | undefined) => (text ? text.split(':') : []);
  const before = groups(head);
  const after = groups(tail);
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - before.length - after.length);
  const all = [...before, ...Array.from({ length: zeros }, () => '0'), ...after];
  return all
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ''))
    .join(':');
}
