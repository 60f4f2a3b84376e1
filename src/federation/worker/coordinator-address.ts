import type { Coordination } from '../coordinator/coordination.ts';
import type { Resolved } from '../peer/addresses.ts';
import type { WorkerRecord } from './worker-role.ts';

/** The coordinator, as whoever made the worker named it; what the operator has registered counts before that. */
export function coordinatorAddress({ service }: WorkerRecord, { resolve }: Pick<Coordination, 'resolve'>): Resolved {
  const { clusterId, endpoint } = service.federation.origin;
  return resolve(clusterId, { [clusterId]: { endpoint, ssl_verify: true, auth_user: '', auth_password: '' } });
}

/** As which the coordinator knows a worker. */
export const memberIn = ({ service: { definition } }: WorkerRecord) => `${definition.cluster_id}/${definition.name}`;
