import { GRANT_SLOT, REFRESH_TOKEN_SLOT } from '../../service/index.ts';
import { FederationError } from '../errors.ts';
import { memberProblems } from '../topology.ts';
import type { Wanted } from './align.ts';
import type { Coordination, ReadDefinition } from './coordination.ts';
import { originIdOf } from './orders.ts';
import { wantedBy } from './prepare.ts';

/** What can be known about the members of a definition without asking anybody; all that is wrong is said at once. */
export function checkMembers({ definition }: Pick<ReadDefinition, 'definition'>, deps: Coordination): Wanted[] {
  const wanted = wantedBy({ definition }, deps);
  const problems = [
    ...memberProblems(definition, originIdOf({ definition }, deps), deps.mostMembers),
    ...new Set(wanted.flatMap(({ problem }) => problem ?? [])),
  ];
  if (problems.length > 0) throw new FederationError('invalid-federation', problems.join('\n'));
  return wanted;
}

/** A federation acts for its owner when they are not there, so it needs a refresh token before it has members. */
export function requireGrant(credentials: ReadDefinition['secrets']['credentials']): void {
  const { [REFRESH_TOKEN_SLOT]: brought, [GRANT_SLOT]: kept } = credentials;
  if (kept || (brought && brought.reveal().trim() !== '')) return;
  throw new FederationError(
    'no-grant',
    'environment.secrets.refresh_token is required for a service with members: get one from your identity provider with the scope offline_access, for instance with oidc-agent or `oscar login`',
  );
}
