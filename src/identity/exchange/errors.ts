import { OscarError } from '../../lib/oscar-error.ts';

export type ExchangeErrorCode =
  /** The service has no refresh token of its owner. */
  | 'no-grant'
  /**
   * The refresh token was sent with Basic credentials, so that its user is not known, and it is not used
   * (docs/invoking-async.md#the-refresh-token).
   */
  | 'local-grant'
  /** The refresh token is expired, revoked or another user's. The owner must send a new one. */
  | 'credentials-expired'
  /** The issuer rejects a refresh token that was just sent. */
  | 'token-rejected'
  /** The issuer does not say whose refresh token it is, so that it is not used. */
  | 'subject-unknown'
  /** Retryable: the issuer does not answer now. The token may be valid. */
  | 'issuer-unavailable'
  /** The issuer, or a setting of this manager, does not allow it. The token may be valid; the operator can fix it. */
  | 'exchange-refused';

export class ExchangeError extends OscarError<ExchangeErrorCode> {}
