import type { Demand } from '../../../model/job/index.ts';
import { bytes, millicores } from '../../../model/service/index.ts';

/** Amounts of resources in the format of Kubernetes. */
export type Quantities = Readonly<Record<string, string>>;

export const GPU = 'nvidia.com/gpu';

/** Missing or invalid quantities count as zero. */
export function parseDemand(quantities: Quantities = {}): Demand {
  return {
    cpu: millicores(quantities['cpu'] ?? '') ?? 0,
    memory: bytes(quantities['memory'] ?? '') ?? 0,
    gpu: bytes(quantities[GPU] ?? '') ?? 0,
  };
}

export const NOTHING: Demand = { cpu: 0, memory: 0, gpu: 0 };

type Join = (a: number, b: number) => number;

const combine = (join: Join) => (a: Demand, b: Demand) => ({
  cpu: join(a.cpu, b.cpu),
  memory: join(a.memory, b.memory),
  gpu: join(a.gpu, b.gpu),
});

export const sum = combine((a, b) => a + b);
export const difference = combine((a, b) => a - b);
export const larger = combine(Math.max);

export const isWithin = (demand: Demand, total: Demand) =>
  demand.cpu <= total.cpu && demand.memory <= total.memory && demand.gpu <= total.gpu;

export const sameDemand = (a: Demand, b: Demand) => a.cpu === b.cpu && a.memory === b.memory && a.gpu === b.gpu;
