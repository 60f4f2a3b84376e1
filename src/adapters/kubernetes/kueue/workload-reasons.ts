import { cores, gpus, size } from '../../../lib/amounts.ts';
import type { Demand } from '../../../model/job/index.ts';
import { difference, NOTHING, parseDemand, sum } from '../capacity/index.ts';
import type { ClusterQueue, Workload } from './objects.ts';

/** Annotation on a Workload that the manager has deactivated because its job is on another cluster. */
export const DELEGATED_ANNOTATION = 'oscar.grycap/elsewhere';

/** Whether the manager has deactivated the Workload because its job is on another cluster. */
export const isDelegated = (workload: Pick<Workload, 'metadata' | 'spec'> | undefined) =>
  workload?.spec.active === false && workload.metadata.annotations?.[DELEGATED_ANNOTATION] !== undefined;

/** Why a job waits in its queue, with Kueue's own message if there is one. */
export function waitingReason(
  queue: string,
  workload: Pick<Workload, 'metadata' | 'spec' | 'status'> | undefined,
): string {
  const words = workload && workloadReason(workload);
  return `waits for its queue ${queue}${words ? `: ${words}` : ''}`;
}

/** Why a running job may not continue. */
export function evictionReason(queue: string, workload: Pick<Workload, 'status'> | undefined): string {
  const said = workload?.status?.conditions?.find(({ type, status }) => type === 'Evicted' && status === 'True');
  return `its queue ${queue} does not let it go on${said?.message ? `: ${said.message}` : ''}`;
}

function workloadReason(workload: Pick<Workload, 'metadata' | 'spec' | 'status'>): string | undefined {
  const { conditions = [] } = workload.status ?? {};
  const of = (wanted: string) => conditions.find(({ type }) => type === wanted);
  if (isDelegated(workload)) return 'it comes back from another cluster';
  if (workload.spec.active === false) return 'its Workload was deactivated';
  const reserved = of('QuotaReserved');
  if (reserved?.status === 'True' && of('Admitted')?.status !== 'True') return 'it has its quota, and is being checked';
  return reserved?.status === 'False' ? reserved.message : undefined;
}

/**
 * Why the ClusterQueue of a user would not admit a job now, given the quota reserved for other jobs. Undefined when it would,
 * or when that is unknown: a queue in a cohort may borrow quota.
 */
export function quotaShortage(
  { spec, status }: Pick<ClusterQueue, 'spec' | 'status'>,
  demand: Demand,
  pledged: Demand = NOTHING,
): string | undefined {
  if (spec.stopPolicy !== undefined && spec.stopPolicy !== 'None') return 'the queue of its owner is stopped';
  if (spec.cohortName) return undefined;
  const quotas = (spec.resourceGroups ?? []).flatMap(({ flavors = [] }) => flavors);
  const total = added(quotas.flatMap(({ resources = [] }) => resources.map((each) => [each.name, each.nominalQuota])));
  const taken = added(
    (status?.flavorsReservation ?? []).flatMap(({ resources = [] }) =>
      resources.map((each) => [each.name, each.total ?? 0]),
    ),
  );
  const left = difference(total, sum(taken, pledged));
  const short = [
    ...(demand.cpu > left.cpu ? [`${cores(demand.cpu)} where ${cores(Math.max(0, left.cpu))} are left`] : []),
    ...(demand.memory > left.memory
      ? [`${size(demand.memory, Math.ceil)} of memory where ${size(Math.max(0, left.memory), Math.floor)} are left`]
      : []),
    ...(demand.gpu > left.gpu ? [`${gpus(demand.gpu)} where ${Math.max(0, left.gpu)} are left`] : []),
  ];
  return short.length === 0 ? undefined : `the quota of its owner does not suffice: it needs ${short.join(', ')}`;
}

function added(amounts: readonly (readonly [name: string, amount: string | number])[]): Demand {
  return amounts.reduce((all, [name, amount]) => sum(all, parseDemand({ [name]: String(amount) })), NOTHING);
}
