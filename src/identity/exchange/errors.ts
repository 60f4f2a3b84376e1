import { OscarError } from '../../lib/oscar-error.ts';

export type ExchangeErrorCode =
  /** The service has no refresh token of its owner's. */
  | 'no-grant'
  /**
   * Its refresh token was brought with Basic credentials: it is nobody's at an issuer, and is not used
   * (docs/invoking-async.md#the-refresh-token).
   */
  | 'local-grant'
  /** Its refresh token is expired, revoked or another user's. Its owner brings a new one. */
  | 'credentials-expired'
  /** Temporary: the issuer cannot be asked now, and nothing was said about the token. */
  | 'issuer-unavailable'
  /** The issuer, or a setting of this manager, does not allow it. Says nothing about the token; the operator can mend it. */
  | 'exchange-refused';

export class ExchangeError extends OscarError<ExchangeErrorCode> {}
