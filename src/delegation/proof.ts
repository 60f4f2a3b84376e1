import type { Admin, User } from '../identity/index.ts';
import { CLUSTER_ADMIN } from '../model/service/index.ts';
import { DelegationError, type MemberKey } from '../peers/index.ts';
import type { ServiceRecord, ServiceStore } from '../ports/index.ts';
import { ServicesError } from '../services/index.ts';
import type { AuthenticatedCoordinator } from './server.ts';

/** The worker that this federation has here under that name; throws `not-found`. It proves nothing yet. */
export async function findClaimedWorker(
  { uid, member }: Pick<MemberKey, 'uid' | 'member'>,
  service: string,
  { services }: { readonly services: ServiceStore },
): Promise<AuthenticatedCoordinator> {
  const worker = await services.get(service);
  const role = worker?.service.federation;
  if (worker && role?.role === 'worker' && role.uid === uid) return { uid, member, worker };
  throw new ServicesError('not-found', `there is no worker "${service}" of this federation`);
}

/**
 * Who a job runs for: the owner of the worker. A key says which federation asks; that its owner still lets it is proven by a
 * token of theirs, which a federation that they left cannot have. The administrator's services are vouched for by the key.
 */
export async function authenticateOwner(
  { service: { owner, definition } }: ServiceRecord,
  authenticate: () => Promise<Admin | User>,
): Promise<Admin | User> {
  if (owner === CLUSTER_ADMIN) return { kind: 'admin' };
  const principal = await authenticate();
  if (principal.kind === 'user' && principal.uid === owner) return principal;
  const why = `"${definition.name}" belongs to somebody else: offers for it need a token of its owner`;
  throw new DelegationError('offer-not-allowed', why);
}
