import { cores, gpus, inCores, size } from '../base/amounts.ts';
import type { Demand } from './job-record.ts';

/**
 * Why a node with nothing on it is too small, as a sentence; undefined when it is not.
 *
 * @example
 * refusalBy({ cpu: 2000, memory: 4 * GiB, gpu: 0 }, { cpu: 8000, memory: GiB, gpu: 0 });
 * // 'it needs 8 cores and the largest node has 2'
 */
export function refusalBy(total: Demand, demand: Demand): string | undefined {
  const reasons = [
    demand.cpu > total.cpu && `it needs ${cores(demand.cpu)} and the largest node has ${inCores(total.cpu)}`,
    demand.memory > total.memory &&
      `it needs ${size(demand.memory, Math.ceil)} of memory and the largest node has ${size(total.memory, Math.floor)}`,
    demand.gpu > total.gpu && `it needs ${gpus(demand.gpu)} and the largest node has ${total.gpu || 'none'}`,
  ].filter((reason) => reason !== false);
  return reasons.length === 0 ? undefined : reasons.join('; ');
}
