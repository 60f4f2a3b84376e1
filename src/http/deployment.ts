import type { Deployment, Service } from '../service/index.ts';

/** What stays up for a service; undefined when nothing does. */
export type DeploymentOf = (service: Service) => Deployment | undefined;

/** Nothing stays up for a service that runs as jobs, and exposed services are not supported yet. */
export const NO_DEPLOYMENT: Deployment = {
  state: 'unavailable',
  reason: 'the service runs when it is invoked, nothing of it stays up',
  active_instances: 0,
  affected_instances: 0,
  resource_kind: 'unavailable',
};
