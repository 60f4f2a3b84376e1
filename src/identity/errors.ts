import { OscarError } from '../lib/oscar-error.ts';

export type IdentityErrorCode =
  /** No `Authorization`, an unknown scheme, or a bearer token where only Basic is configured. The answer asks for Basic. */
  | 'no-credentials'
  /**
   * A route that accepts only bearer tokens was called without one. The answer does not ask for Basic
   * (docs/security.md#who-asks).
   */
  | 'bearer-required'
  /** More than one `Authorization`: a proxy in front of the manager may have checked another one than we would use. */
  | 'ambiguous-credentials'
  /** Basic credentials that are not the administrator's. */
  | 'bad-credentials'
  /** The address of the caller has sent too many wrong passwords of the administrator. */
  | 'too-many-failures'
  /** A bearer token that is not a valid access token, and not the token of the requested service. */
  | 'bad-token'
  /** A valid token of a user who is in none of the groups that this cluster admits. */
  | 'not-in-group'
  /** The issuer does not answer now, so that the token could not be verified. */
  | 'issuer-unavailable'
  /** The owner of the service is not a member of its virtual organisation. */
  | 'vo-refused';

export class IdentityError extends OscarError<IdentityErrorCode> {}
