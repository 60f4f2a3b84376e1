import { OscarError } from '../oscar-error.ts';

/**
 * Why there is no connection. `address-refused`: the place is not one that a definition may name. `untrusted`: somebody
 * answers, but their certificate does not hold. `unreachable`: everything else between here and there.
 */
export type OutboundErrorCode = 'address-refused' | 'unreachable' | 'untrusted';

export class OutboundError extends OscarError<OutboundErrorCode> {}
