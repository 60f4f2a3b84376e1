import type { ServiceRecord } from '../../cluster/index.ts';
import type { FederationRole, Service } from '../../service/index.ts';
import type { WorkerOrder } from '../peer/peer.ts';
import { keyIdOf } from '../peer/signature.ts';

export type WorkerRole = Extract<FederationRole, { role: 'worker' }>;

export interface WorkerRecord extends ServiceRecord {
  readonly service: Service & { readonly federation: WorkerRole };
}

/**
 * The digest of a worker whose definition is stored and whose secrets may not be yet. No definition has it, so that a
 * coordinator which finds it sends everything again.
 */
export const UNFINISHED = '0'.repeat(64);

export function roleOf(order: Omit<WorkerOrder, 'body'>, how: Pick<WorkerRole, 'adopted' | 'digest'>): WorkerRole {
  const { uid, revision, key, origin } = order;
  return { role: 'worker', uid, revision, keyId: keyIdOf(key), origin, ...how };
}

export function isWorker(record: ServiceRecord | undefined): record is WorkerRecord {
  return record?.service.federation?.role === 'worker';
}

/** Is it one of this federation, whichever key it has? */
export function isWorkerIn(record: ServiceRecord | undefined, uid: string): record is WorkerRecord {
  return isWorker(record) && record.service.federation.uid === uid;
}

/** Is it the one that was made with this key? */
export function isWorkerOf(record: ServiceRecord | undefined, keyId: string): record is WorkerRecord {
  return isWorker(record) && record.service.federation.keyId === keyId;
}
