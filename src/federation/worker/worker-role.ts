import type { FederationRole, Service } from '../../model/service/index.ts';
import { FederationError, memberKeyId, type WorkerOrder } from '../../peers/index.ts';
import type { ServiceRecord } from '../../ports/index.ts';
import type { Services } from '../../services/index.ts';
import type { Audit } from '../audit.ts';

type WorkerRole = Extract<FederationRole, { role: 'worker' }>;

export interface WorkerRecord extends ServiceRecord {
  readonly service: Service & { readonly federation: WorkerRole };
}

/**
 * The digest of a worker whose definition is stored but whose secrets may not be stored yet. No definition has this digest,
 * so a coordinator that sees it sends everything again.
 */
export const UNFINISHED = '0'.repeat(64);

export function toWorkerRole(
  order: Omit<WorkerOrder, 'body'>,
  how: Pick<WorkerRole, 'adopted' | 'digest'>,
): WorkerRole {
  const { uid, revision, key, origin } = order;
  return { role: 'worker', uid, revision, keyId: memberKeyId(key), origin, ...how };
}

export function isWorker(record: ServiceRecord | undefined): record is WorkerRecord {
  return record?.service.federation?.role === 'worker';
}

/** Whether the service is a worker of this federation, with any key. */
export function isWorkerInFederation(record: ServiceRecord | undefined, uid: string): record is WorkerRecord {
  return isWorker(record) && record.service.federation.uid === uid;
}

/** Whether the service is the worker that has this key. */
export function isWorkerWithKey(record: ServiceRecord | undefined, keyId: string): record is WorkerRecord {
  return isWorker(record) && record.service.federation.keyId === keyId;
}

/**
 * What a manager needs to serve requests of coordinators (docs/peer-protocol.md#calls). A worker is a service with a role:
 * its data is in the coordinator's store, and only the coordinator changes it.
 */
export interface Workers {
  readonly catalog: Services;
  /** Identifies this cluster, independent of the address that a peer uses. */
  readonly instance: string;
  /** Receives events for the audit log. */
  readonly audit?: Audit;
}

/** Enough for any burst of writers to one service. More failures than this mean a fault, not contention. */
export const WRITE_ATTEMPTS = 8;

/**
 * Whether a worker of this federation still exists after a coordinator ended it with its key. The worker then has another
 * key: it was added again since, or the coordinator was restored from a backup that is older than the key.
 */
export async function hasWorkerOf(name: string, uid: string, { catalog }: Pick<Workers, 'catalog'>): Promise<boolean> {
  const record = await catalog.services.get(name);
  return isWorker(record) && record.service.federation.uid === uid;
}

/** What users do to a service on its own cluster. */
export type WorkerAction = 'read' | 'update' | 'change-members' | 'invoke' | 'delete';

/** The error for an action that the federation role of a service does not allow here; undefined if the action is allowed. */
export function federationGuard(
  { definition, federation }: Service,
  action: WorkerAction,
): FederationError | undefined {
  if (federation?.role === 'coordinator' && !federation.committed && action === 'invoke') {
    return new FederationError('origin-away', `the members of "${definition.name}" are still being created: try again`);
  }
  if (federation?.role !== 'worker' || action === 'read' || action === 'delete') return undefined;
  const { service, endpoint } = federation.origin;
  const what =
    action === 'invoke'
      ? `jobs of "${definition.name}" are submitted to its coordinator: invoke "${service}" at ${endpoint}`
      : `"${definition.name}" is the worker of a federation: change "${service}" at ${endpoint}, and it follows`;
  return new FederationError('not-the-coordinator', what);
}
