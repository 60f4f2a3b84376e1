import { cores, gpus, size } from '../../../base/amounts.ts';
import type { Demand } from '../../job-record.ts';
import { difference, NOTHING, sum } from '../capacity/amounts.ts';
import { demandOf } from '../capacity/quantities.ts';
import type { ClusterQueue } from './objects.ts';

/**
 * Why the queue of a user would not let a job in now, where so much is pledged to others; undefined when it would, or nobody can
 * say: one that may borrow from others of its cohort may let in more than it has.
 */
export function refusalOf(
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
  return amounts.reduce((all, [name, amount]) => sum(all, demandOf({ [name]: String(amount) })), NOTHING);
}
