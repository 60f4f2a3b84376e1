import type { Catalog } from '../catalog/index.ts';
import type { Coordinator, Ways, WorkerRole } from '../delegation/index.ts';
import type { Coordination } from '../federation/index.ts';

interface Deps {
  readonly ways: Ways;
  readonly coordination: Pick<Coordination, 'resolve'>;
  readonly catalog: Pick<Catalog, 'secrets'>;
}

/**
 * How a worker speaks to its coordinator: at the address that the operator's registry has, otherwise the one that came with
 * the worker; as the member whose key both know.
 */
export function coordinators({ ways, coordination, catalog }: Deps) {
  return async ({ origin, keyId }: WorkerRole): Promise<Coordinator | undefined> => {
    const { clusterId, endpoint } = origin;
    const resolved = coordination.resolve(clusterId, {
      [clusterId]: { endpoint, ssl_verify: true, auth_user: '', auth_password: '' },
    });
    const key = (await catalog.secrets.get('member', keyId))?.values['key'];
    return 'address' in resolved ? { origin: ways.originAt(resolved.address), key } : undefined;
  };
}
