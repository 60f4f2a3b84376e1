import { OscarError } from '../../lib/oscar-error.ts';

/** `grant-refused`: the refresh token belongs to another user, or cannot be used in this way. */
export type GrantErrorCode = 'grant-refused';

export class GrantError extends OscarError<GrantErrorCode> {}
