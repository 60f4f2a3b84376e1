import { type ClusterStore, type Deployment, present, type Service } from '../model/service/index.ts';
import type { ServiceRecord } from '../ports/index.ts';
import { goJson } from './go-json.ts';

/** Writes services as JSON. */
export interface ServiceView {
  one(record: ServiceRecord, showToken: boolean, deployment?: Deployment): string;
}

/**
 * A service is written once per version, not per request: a record is the same object for as long as it stands
 * unchanged, so that it can be the key. Answers with a deployment are written each time, since that changes by itself.
 */
export function createServiceView(store: ClusterStore): ServiceView {
  const written = { true: new WeakMap<ServiceRecord, string>(), false: new WeakMap<ServiceRecord, string>() };
  return {
    one(record, showToken, deployment) {
      if (deployment) return goJson(present(record.service, { store, showToken, deployment }));
      const cache = written[`${showToken}`];
      let text = cache.get(record);
      if (text === undefined) {
        text = goJson(present(record.service, { store, showToken }));
        cache.set(record, text);
      }
      return text;
    },
  };
}

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
