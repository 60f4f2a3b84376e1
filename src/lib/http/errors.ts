import { OscarError } from '../oscar-error.ts';

/**
 * Why there is no connection. `address-refused`: the place is not one that a definition may name. `untrusted`: somebody
 * answers, but their certificate does not hold. `unreachable`: everything else between here and there.
 */
export type HttpClientErrorCode = 'address-refused' | 'unreachable' | 'untrusted';

export class HttpClientError extends OscarError<HttpClientErrorCode> {}
