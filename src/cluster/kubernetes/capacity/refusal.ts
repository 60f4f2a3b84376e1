import { cores, gpus, size } from '../../../base/amounts.ts';
import { refusalBy } from '../../capacity-refusal.ts';
import type { Demand } from '../../job-record.ts';
import { isWithin, larger, NOTHING } from './amounts.ts';

/** Why none of these nodes could take it, with nothing on it. What is not known is not refused: without nodes, nothing is. */
export function refusalOf(totals: readonly Demand[], demand: Demand): string | undefined {
  if (totals.length === 0 || totals.some((total) => isWithin(demand, total))) return undefined;
  return (
    refusalBy(totals.reduce(larger, NOTHING), demand) ?? `it needs ${all(demand)} on one node, and none has all that`
  );
}

/** Each of them is there, on one node or another. */
function all({ cpu, memory, gpu }: Demand): string {
  const parts = [
    ...(cpu > 0 ? [cores(cpu)] : []),
    ...(memory > 0 ? [`${size(memory, Math.ceil)} of memory`] : []),
    ...(gpu > 0 ? [gpus(gpu)] : []),
  ];
  return new Intl.ListFormat('en-GB').format(parts);
}
