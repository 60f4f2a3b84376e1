import { OscarError } from '../lib/oscar-error.ts';

export type IdentityErrorCode =
  /** No `Authorization`, a scheme we do not know, or a bearer where only Basic is configured: ask for Basic. */
  | 'no-credentials'
  /**
   * A route that takes a bearer token alone was called without one; Basic is no answer there
   * (docs/security.md#who-asks).
   */
  | 'bearer-required'
  /** More than one `Authorization`: whichever we chose, a proxy before us may have checked the other. */
  | 'ambiguous-credentials'
  /** Basic credentials that are not the administrator's. */
  | 'bad-credentials'
  /** A bearer that is no valid access token, or not the token of the service it was sent to. */
  | 'bad-token'
  /** A valid token of somebody who is in none of the groups that this cluster admits. */
  | 'not-in-group'
  /** The issuer of the token cannot be asked now; nothing was said about the token itself. */
  | 'issuer-unavailable'
  /** The virtual organisation of a service is not one of its owner's. */
  | 'vo-refused';

export class IdentityError extends OscarError<IdentityErrorCode> {}
