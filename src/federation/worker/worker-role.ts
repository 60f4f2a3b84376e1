import type { FederationRole, Service } from '../../model/service/index.ts';
import { FederationError, keyIdOf, type WorkerOrder } from '../../peers/index.ts';
import type { ServiceRecord } from '../../ports/index.ts';
import type { Services } from '../../services/index.ts';
import type { Audit } from '../audit.ts';

type WorkerRole = Extract<FederationRole, { role: 'worker' }>;

export interface WorkerRecord extends ServiceRecord {
  readonly service: Service & { readonly federation: WorkerRole };
}

/**
 * The digest of a worker whose definition is stored and whose secrets may not be yet. No definition has it, so that a
 * coordinator which finds it sends everything again.
 */
export const UNFINISHED = '0'.repeat(64);

export function toWorkerRole(
  order: Omit<WorkerOrder, 'body'>,
  how: Pick<WorkerRole, 'adopted' | 'digest'>,
): WorkerRole {
  const { uid, revision, key, origin } = order;
  return { role: 'worker', uid, revision, keyId: keyIdOf(key), origin, ...how };
}

export function isWorker(record: ServiceRecord | undefined): record is WorkerRecord {
  return record?.service.federation?.role === 'worker';
}

/** Is it one of this federation, whichever key it has? */
export function isWorkerInFederation(record: ServiceRecord | undefined, uid: string): record is WorkerRecord {
  return isWorker(record) && record.service.federation.uid === uid;
}

/** Is it the one that was made with this key? */
export function isWorkerWithKey(record: ServiceRecord | undefined, keyId: string): record is WorkerRecord {
  return isWorker(record) && record.service.federation.keyId === keyId;
}

/**
 * What a manager does when the manager of another cluster asks (docs/peer-protocol.md#calls). A
 * worker is a service like others, with a role: its data is in the store of the coordinator, and it changes when the
 * coordinator says so.
 */
export interface Workers {
  readonly catalog: Services;
  /** Names this cluster, whatever address it is asked under. */
  readonly instance: string;
  /** Hears of what somebody may ask about later. */
  readonly audit?: Audit;
}

/** Enough for any burst of writers to one service; more would be a fault, not contention. */
export const WRITE_ATTEMPTS = 8;

/**
 * Is the worker of a federation still there after it was ended with this key? Then it has another: it was added again since,
 * or whoever ended it has forgotten that, having been restored from a backup.
 */
export async function hasWorkerOf(name: string, uid: string, { catalog }: Pick<Workers, 'catalog'>): Promise<boolean> {
  const record = await catalog.services.get(name);
  return isWorker(record) && record.service.federation.uid === uid;
}

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
