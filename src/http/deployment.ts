import type { Deployment, Service } from '../service/index.ts';

/** Nothing stays up for a service that runs as jobs; exposed services are not supported yet. */
export function deploymentOf(_service: Service): Deployment {
  return {
    state: 'unavailable',
    reason: 'the service runs when it is invoked, nothing of it stays up',
    active_instances: 0,
    affected_instances: 0,
    resource_kind: 'unavailable',
  };
}
