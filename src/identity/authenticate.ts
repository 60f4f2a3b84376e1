import type { Secret } from '../lib/secret.ts';
import type { Service } from '../model/service/index.ts';
import { type BasicAccount, type Credentials, isAccount, readAuthorization } from './authorization-header.ts';
import { IdentityError } from './errors.ts';
import type { Admin, Principal, ServiceToken, User } from './principal.ts';
import { isServiceToken, matchesServiceToken } from './service-token.ts';

/** Verifies access tokens of the configured issuers and returns their users. */
export interface TokenVerifier {
  /** @throws {IdentityError} `bad-token`, `not-in-group` or `issuer-unavailable` */
  verify(token: string): Promise<User>;
}

export interface AuthenticatorOptions {
  readonly admin: BasicAccount;
  /** Absent when OIDC is off: then `/system` accepts Basic credentials only (docs/security.md#who-asks). */
  readonly oidc?: TokenVerifier | undefined;
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

/** Authenticates a request by all values of its `Authorization` header, or throws an {@link IdentityError}. */
export interface Authenticator {
  /** For `/system`: the administrator or a user. */
  system(authorization: readonly string[]): Promise<Admin | User>;
  /** For routes of one service: also the holder of its token. */
  service(authorization: readonly string[], route: ServiceRoute): Promise<Principal>;
}

const ADMIN: Admin = Object.freeze({ kind: 'admin' });

export function createAuthenticator({ admin, oidc }: AuthenticatorOptions): Authenticator {
  const noCredentials = () =>
    new IdentityError(
      'no-credentials',
      oidc
        ? 'authentication required: send Authorization with Basic credentials or a Bearer access token'
        : 'authentication required: send Authorization with Basic credentials, this cluster accepts no access tokens',
    );

  function administrator(account: BasicAccount | undefined): Admin {
    if (account && isAccount(account, admin)) return ADMIN;
    throw new IdentityError('bad-credentials', 'wrong user name or password');
  }

  function user(token: Secret): Promise<User> {
    if (!oidc) {
      throw new IdentityError('bad-token', 'this cluster accepts no access tokens: use the token of the service');
    }
    return oidc.verify(token.reveal());
  }

  return {
    async system(authorization) {
      const credentials = readOne(authorization);
      if (credentials.scheme === 'basic') return administrator(credentials.account);
      if (credentials.scheme === 'none' || !oidc) throw noCredentials();
      if (isServiceToken(credentials.token.reveal())) {
        throw new IdentityError('bad-token', 'a service token can only invoke its service: send an access token here');
      }
      return user(credentials.token);
    },

    async service(authorization, { service, allowBasic, extraToken }) {
      const credentials = readOne(authorization);
      if (credentials.scheme === 'basic' && allowBasic) return administrator(credentials.account);
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
