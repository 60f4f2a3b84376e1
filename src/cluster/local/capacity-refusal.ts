import type { Demand } from '../job-record.ts';

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

const inCores = (millicores: number) => String(millicores / 1000);
const cores = (millicores: number) => `${inCores(millicores)} ${millicores === 1000 ? 'core' : 'cores'}`;
const gpus = (count: number) => `${count} ${count === 1 ? 'GPU' : 'GPUs'}`;

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

/** What is needed is rounded up and what is there down: one that is larger never reads like the other. */
function size(bytes: number, round: (value: number) => number): string {
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return `${round((bytes / 1024 ** power) * 100) / 100} ${UNITS[power]}`;
}
