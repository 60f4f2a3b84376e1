import type { Service } from '../../service/index.ts';
import { FederationError } from '../errors.ts';

/** What people do to a service where it is. */
export type WorkerAction = 'read' | 'update' | 'change-members' | 'invoke' | 'delete';

/** Why this cannot be done to a service here, because of what it is in its federation; undefined when it can. */
export function federationGuard(
  { definition, federation }: Service,
  action: WorkerAction,
): FederationError | undefined {
  if (federation?.role === 'coordinator' && !federation.committed && action === 'invoke') {
    return new FederationError('origin-away', `the members of "${definition.name}" are just being made: try again`);
  }
  if (federation?.role !== 'worker' || action === 'read' || action === 'delete') return undefined;
  const { service, endpoint } = federation.origin;
  const what =
    action === 'invoke'
      ? `jobs of "${definition.name}" enter at its coordinator: invoke "${service}" at ${endpoint}`
      : `"${definition.name}" is the worker of a federation: change "${service}" at ${endpoint}, and it follows`;
  return new FederationError('not-the-coordinator', what);
}
