import { OscarError } from '../../lib/oscar-error.ts';
import type { Problem } from './codec.ts';

/** `invalid-definition`: the client can fix it. `not-supported`: it is valid, but this manager does not implement it yet. */
export type ServiceErrorCode = 'invalid-definition' | 'not-supported' | 'invalid-fdl';

export class ServiceError extends OscarError<ServiceErrorCode> {}

/** Longer lists do not help the user. */
const MAX_SHOWN_PROBLEMS = 20;

/** All problems in one message, each with its path: `input[0].path: is empty`. */
export function invalidDefinition(problems: readonly Problem[]): ServiceError {
  const shown = problems
    .slice(0, MAX_SHOWN_PROBLEMS)
    .map(({ path, message }) => (path ? `${path}: ${message}` : message));
  if (problems.length > MAX_SHOWN_PROBLEMS) shown.push(`and ${problems.length - MAX_SHOWN_PROBLEMS} more`);
  return new ServiceError('invalid-definition', shown.join('\n'));
}
