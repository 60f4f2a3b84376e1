import type { Deployment } from '../../../service/index.ts';
import type { Pod } from '../runner/pod/pod.ts';
import type { KnativeService } from './knative-service.ts';

/** What stands behind a service that Knative answers for (contract §1.10). */
export function deploymentOf(service: KnativeService | undefined, pods: readonly Pod[]): Deployment {
  const ready = service?.status?.conditions?.find(({ type }) => type === 'Ready');
  const active = pods.filter(({ status }) => status?.phase === 'Pending' || status?.phase === 'Running');
  const healthy = active.filter(({ status }) =>
    status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True'),
  );
  const reason = [ready?.reason, ready?.message].filter((each) => each !== undefined && each !== '').join(': ');
  return {
    state: stateOf(ready?.status, healthy.length),
    ...(reason !== '' && { reason }),
    ...(ready?.lastTransitionTime !== undefined && { last_transition_time: ready.lastTransitionTime }),
    active_instances: active.length,
    affected_instances: ready?.status === 'True' ? 0 : active.length - healthy.length,
    resource_kind: 'knative_service',
  };
}

function stateOf(ready: string | undefined, healthy: number): string {
  if (ready === 'True') return 'ready';
  if (ready === 'False') return healthy > 0 ? 'degraded' : 'failed';
  return 'pending';
}
