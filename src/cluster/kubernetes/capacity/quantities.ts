import { bytes, millicores } from '../../../service/quantity.ts';
import type { Demand } from '../../job-record.ts';

/** As Kubernetes writes what there is of each resource, or what is asked for. */
export type Quantities = Readonly<Record<string, string>>;

export const GPU = 'nvidia.com/gpu';

/** What is not there, or no quantity, is nothing. */
export function demandOf(quantities: Quantities = {}): Demand {
  return {
    cpu: millicores(quantities['cpu'] ?? '') ?? 0,
    memory: bytes(quantities['memory'] ?? '') ?? 0,
    gpu: bytes(quantities[GPU] ?? '') ?? 0,
  };
}
