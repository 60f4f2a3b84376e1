import { OscarError } from '../../lib/oscar-error.ts';

/** `grant-refused`: the refresh token is somebody else's, or cannot be used like that. */
export type GrantErrorCode = 'grant-refused';

export class GrantError extends OscarError<GrantErrorCode> {}
